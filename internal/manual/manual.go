// Package manual writes manual pages: a program's by its command line's model in kong, that of the
// configuration file by its JSON Schema.
//
// Its one invariant: text comes out as text, whatever characters of roff it has. It knows the words of
// pages and no command of ours. Do not use it for help on a terminal: that is kong's.
package manual

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Page is a manual page: its name, its section and its text.
type Page struct {
	Name, Section, Text string
}

// File is the page's name as a file.
func (p Page) File() string { return p.Name + "." + p.Section }

// Edition is what every page has at its foot.
type Edition struct {
	Source string    // the program and its version
	Date   time.Time // when the source was last changed
}

// Part is a section of the first page of a program: paragraphs, or terms with what they are.
type Part struct {
	Title string
	Text  []string
	Terms []Term
}

// Term is a word, and what it is.
type Term struct{ Word, What string }

// Program is what a model does not say of a program.
type Program struct {
	Parts   []Part   // of its first page, behind the flags
	SeeAlso []string // other pages, as selvage.yaml(5)
}

const user = "1" // the section of programs

// Pages are those of a program: its own and one of each command, with all commands below it.
func Pages(model *kong.Application, p Program, e Edition) []Page {
	pages := []Page{{model.Name, user, programPage(model, p, e)}}
	for _, child := range shown(model.Children) {
		if !child.Passthrough { // another program, with pages of its own
			pages = append(pages, Page{pageName(child), user, commandPage(child, e)})
		}
	}
	return pages
}

// pageName is the page's of a command of a program, as git-log is that of git log.
func pageName(n *kong.Node) string { return strings.ReplaceAll(path(n), " ", "-") }

// path is what is typed for a command.
func path(n *kong.Node) string {
	if n.Parent == nil {
		return n.Name
	}
	return path(n.Parent) + " " + n.Name
}

func shown(nodes []*kong.Node) []*kong.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *kong.Node) bool { return n.Hidden })
}

func programPage(model *kong.Application, p Program, e Edition) string {
	var r roff
	r.title(model.Name, user, e)
	r.section("NAME")
	r.words(model.Name + " - " + brief(model.Help))
	r.section("SYNOPSIS")
	r.line(bold(model.Name) + " " + italic("COMMAND") + " [" + italic("FLAG") + "]...")
	r.section("DESCRIPTION")
	r.paragraph(model.Help)
	r.paragraph(fmt.Sprintf("Each command has a page of its own: %s-%s is that of %s %s.",
		model.Name, shown(model.Children)[0].Name, model.Name, shown(model.Children)[0].Name))
	r.section("COMMANDS")
	group := ""
	for _, child := range shown(model.Children) {
		if child.Group != nil && child.Group.Title != group || child.Group == nil && group != "" {
			group = ""
			if child.Group != nil {
				group = child.Group.Title
			}
			r.subsection(or(group, "Other commands"))
		}
		r.term(bold(pageName(child))+"("+user+")", child.Help)
	}
	r.section("OPTIONS")
	r.flags(slices.Concat(helpFlag(model), model.Flags))
	environment(&r, model.Node)
	r.parts(p.Parts)
	r.seeAlso(p.SeeAlso)
	return r.String()
}

func commandPage(n *kong.Node, e Edition) string {
	var r roff
	r.title(pageName(n), user, e)
	r.section("NAME")
	r.words(pageName(n) + " - " + brief(n.Help))
	r.section("SYNOPSIS")
	leaves := leaves(n)
	for i, leaf := range leaves {
		if i > 0 {
			r.line(".br")
		}
		r.synopsis(leaf)
	}
	r.section("DESCRIPTION")
	r.describe(n)
	if len(leaves) == 1 && leaves[0] == n {
		r.section("OPTIONS")
		r.operands(n)
	} else {
		if flags := visible(n.Flags); len(flags) > 0 {
			r.section("OPTIONS")
			r.flags(flags)
		}
		r.section("COMMANDS")
		for _, leaf := range leaves {
			r.subsection(path(leaf))
			r.describe(leaf)
			r.operands(leaf)
		}
	}
	environment(&r, n)
	program := n.Parent
	others := []string{program.Name + "(" + user + ")"}
	r.seeAlso(others)
	return r.String()
}

// leaves are the commands that can be typed below a command, itself if there is none below.
func leaves(n *kong.Node) (list []*kong.Node) {
	for _, child := range shown(n.Children) {
		list = append(list, leaves(child)...)
	}
	if len(list) == 0 {
		return []*kong.Node{n}
	}
	return list
}

// environment is the section on the variables that flags of a command and of those below it read.
func environment(r *roff, n *kong.Node) {
	read := map[string]string{}
	var collect func(n *kong.Node)
	collect = func(n *kong.Node) {
		for _, f := range visible(n.Flags) {
			for _, name := range f.Envs {
				read[name] = f.Name
			}
		}
		for _, child := range shown(n.Children) {
			collect(child)
		}
	}
	collect(n)
	if len(read) == 0 {
		return
	}
	r.section("ENVIRONMENT")
	for _, name := range slices.Sorted(maps.Keys(read)) {
		r.term(bold(name), "The default of --"+read[name]+".")
	}
}

func helpFlag(model *kong.Application) []*kong.Flag {
	if model.HelpFlag == nil || slices.Contains(model.Flags, model.HelpFlag) {
		return nil
	}
	return []*kong.Flag{model.HelpFlag}
}

func visible(flags []*kong.Flag) []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(flags), func(f *kong.Flag) bool { return f.Hidden })
}

// brief is a text's first sentence as whatis shows it: without its full stop, one line.
func brief(text string) string {
	first, _, _ := strings.Cut(strings.Join(strings.Fields(text), " "), ". ")
	return strings.TrimSuffix(first, ".")
}

func or(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}
