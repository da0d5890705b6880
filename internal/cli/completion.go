package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/internal/api"
)

// completionScripts have a shell ask `selvage __complete WORD...`, which prints a line for
// each candidate: the word, a tab and what it is. The last WORD is the one to complete.
var completionScripts = map[string]string{
	"bash": `_selvage() {
    local IFS=$'\n' line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <(selvage __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _selvage selvage
`,
	"zsh": `#compdef selvage
_selvage() {
    local -a candidates
    local line
    while IFS= read -r line; do
        candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <(selvage __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#candidates} )); then
        _describe selvage candidates
    else
        _files
    fi
}
compdef _selvage selvage
`,
	"fish": `function __selvage_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l candidates (selvage __complete $words[2..-1] 2>/dev/null)
    if test (count $candidates) -gt 0
        printf '%s\n' $candidates
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c selvage -f -a '(__selvage_complete)'
`,
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of ${enum}."`
}

// Help says what kong's flags do not.
func (*completionCmd) Help() string {
	return "bash: selvage completion bash > /etc/bash_completion.d/selvage. " +
		"zsh: selvage completion zsh > \"${fpath[1]}/_selvage\". " +
		"fish: selvage completion fish > ~/.config/fish/completions/selvage.fish. " +
		"Commands, flags and their values are completed; names of edges, segments, ports and neighbours too, where this user may ask the edge."
}

// Run prints the script of a shell.
func (c *completionCmd) Run(s *streams) error {
	_, err := io.WriteString(s.out, completionScripts[c.Shell])
	return err
}

// askTime is how long completion waits for an edge.
const askTime = time.Second

// completion is a command line that is being typed.
type completion struct {
	node       *kong.Node
	flag       *kong.Flag // whose value comes next, nil for none
	plain      bool       // after --
	positional int
	target     target // which edge to ask for names
}

// complete prints the candidates for the last of words.
func complete(ctx context.Context, model *kong.Application, words []string, w io.Writer) error {
	if len(words) == 0 {
		words = []string{""}
	}
	c := completion{node: model.Node, target: target{runtimeDir: runtimeDir{cmp.Or(os.Getenv("SELVAGE_RUNTIME_DIR"), api.DefaultRuntimeDir)}}}
	last := len(words) - 1
	for _, word := range words[:last] {
		c.read(word)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	current, before := words[last], ""
	if current == "=" { // bash makes three words of --flag=value
		current = ""
	}
	if name, value, ok := strings.Cut(current, "="); ok && c.flag == nil && !c.plain {
		if f := c.flagNamed(name); f != nil {
			c.flag, current, before = f, value, name+"="
		}
	}
	for _, candidate := range c.candidates(ctx, current) {
		if strings.HasPrefix(candidate[0], current) {
			if _, err := fmt.Fprintf(w, "%s%s\t%s\n", before, candidate[0], candidate[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// read takes a word that is typed whole.
func (c *completion) read(word string) {
	switch {
	case word == "=":
	case c.flag != nil:
		c.set(c.flag, word)
		c.flag = nil
	case word == "--":
		c.plain = true
	case !c.plain && strings.HasPrefix(word, "-"):
		name, value, given := strings.Cut(word, "=")
		f := c.flagNamed(name)
		switch {
		case f != nil && given:
			c.set(f, value)
		case f != nil && !f.IsBool() && !f.IsCounter():
			c.flag = f
		}
	default:
		for _, child := range c.node.Children {
			if child.Name == word || slices.Contains(child.Aliases, word) {
				c.node, c.positional = child, 0
				return
			}
		}
		c.positional++
	}
}

// set notes which edge is meant.
func (c *completion) set(f *kong.Flag, value string) {
	switch f.Name {
	case "edge":
		c.target.Edge = value
	case "runtime-dir":
		c.target.RuntimeDir = value
	}
}

// flags are those that may stand here.
func (c *completion) flags() (list []*kong.Flag) {
	for _, group := range c.node.AllFlags(true) {
		list = append(list, group...)
	}
	if c.node.DefaultCmd != nil {
		list = append(list, c.node.DefaultCmd.Flags...)
	}
	return list
}

func (c *completion) flagNamed(name string) *kong.Flag {
	for _, f := range c.flags() {
		if "--"+f.Name == name || f.Short != 0 && "-"+string(f.Short) == name {
			return f
		}
	}
	return nil
}

// candidates are the words that may stand here, each with what it is.
func (c *completion) candidates(ctx context.Context, current string) (list [][2]string) {
	if c.flag != nil {
		return c.values(ctx, c.flag.Value)
	}
	if strings.HasPrefix(current, "-") && !c.plain {
		for _, f := range c.flags() {
			if !f.Hidden {
				list = append(list, [2]string{"--" + f.Name, f.Help})
			}
		}
		return list
	}
	for _, child := range c.node.Children {
		if !child.Hidden && c.positional == 0 {
			list = append(list, [2]string{child.Name, child.Help})
		}
	}
	node := c.node
	if node.DefaultCmd != nil {
		node = node.DefaultCmd
	}
	if c.positional < len(node.Positional) {
		list = append(list, c.values(ctx, node.Positional[c.positional])...)
	}
	return list
}

// values are those of a flag or an argument: the words that it may be, or names that an edge
// knows.
func (c *completion) values(ctx context.Context, v *kong.Value) (list [][2]string) {
	for _, word := range v.EnumSlice() {
		if word != "" {
			list = append(list, [2]string{word, ""})
		}
	}
	if v.Name == "edge" {
		names, _ := api.Running(c.target.RuntimeDir)
		for _, name := range names {
			list = append(list, [2]string{name, "running edge"})
		}
		return list
	}
	if v.Name == "revision" {
		return c.revisions(ctx)
	}
	if names, ok := edgeNames[v.Name]; ok {
		if client, err := c.target.dial(); err == nil {
			for _, name := range names(ctx, client) {
				list = append(list, [2]string{name, v.Name})
			}
		}
	}
	return list
}

// revisions are those that an edge can go back to.
func (c *completion) revisions(ctx context.Context) (list [][2]string) {
	client, err := c.target.dial()
	if err != nil {
		return nil
	}
	history, _ := client.Config().History(ctx) // without an answer there are none
	for _, r := range history {
		if !r.InForce {
			list = append(list, [2]string{strconv.Itoa(r.ID), r.When.UTC().Format(time.DateTime) + ", " + r.What})
		}
	}
	return list
}

// edgeNames are the flags and arguments that take a name which the edge knows.
var edgeNames = map[string]func(context.Context, *api.Client) []string{
	"segment": func(ctx context.Context, c *api.Client) (names []string) {
		s, _ := c.Status(ctx) // without an answer there are none
		for _, segment := range s.Segments {
			names = append(names, segment.Name)
		}
		return names
	},
	"port": func(ctx context.Context, c *api.Client) (names []string) {
		ports, _ := c.Ports(ctx)
		for _, p := range ports {
			names = append(names, p.Name)
		}
		return names
	},
	"remote": func(ctx context.Context, c *api.Client) (names []string) {
		teps, _ := c.TEPs(ctx)
		for _, t := range teps {
			names = append(names, t.Address.String())
		}
		return names
	},
	"neighbour": func(ctx context.Context, c *api.Client) (names []string) {
		info, _ := c.BGP().Info(ctx)
		for _, n := range info.Neighbours {
			names = append(names, n.Name)
		}
		return names
	},
}
