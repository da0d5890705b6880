package manual

import (
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// roff is a page that is being written, in the macros of man(7).
type roff struct {
	strings.Builder
	headed bool // a heading was the last line
}

// width is how long lines of text are in the source.
const width = 78

// escape is text that roff prints as it is. A hyphen is one that can be copied into a command line.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "\t", " ").Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

func bold(text string) string   { return `\fB` + escape(text) + `\fR` }
func italic(text string) string { return `\fI` + escape(text) + `\fR` }

// quoted is an argument of a macro.
func quoted(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }

// line writes a line as it is.
func (r *roff) line(text string) {
	r.WriteString(text)
	r.WriteByte('\n')
	r.headed = strings.HasPrefix(text, ".SH ") || strings.HasPrefix(text, ".SS ")
}

func (r *roff) title(name, section string, e Edition) {
	r.line(`.\" Generated from the program; do not edit.`)
	r.line(fmt.Sprintf(".TH %s %s %s %s %s", quoted(strings.ToUpper(name)), section, `"`+e.Date.UTC().Format(time.DateOnly)+`"`, quoted(e.Source), quoted("Selvage manual")))
	r.line(".nh") // no hyphenation: words are often commands
	r.line(".ad l")
}

func (r *roff) section(name string)    { r.line(".SH " + quoted(name)) }
func (r *roff) subsection(name string) { r.line(".SS " + quoted(name)) }

// sentences writes text with each sentence on a line, as roff wants it.
func (r *roff) sentences(text string) {
	for line := range strings.Lines(text) {
		words := strings.Join(strings.Fields(line), " ")
		for {
			first, rest, more := strings.Cut(words, ". ")
			if !more {
				break
			}
			r.words(first + ".")
			words = rest
		}
		r.words(words)
	}
}

// words writes a sentence, in lines.
func (r *roff) words(text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(escape(line))+len(escape(word)) >= width {
			r.line(escape(line))
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		r.line(escape(line))
	}
}

// paragraph writes paragraphs, which empty lines divide.
func (r *roff) paragraph(text string) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.TrimSpace(part) != "" {
			if !r.headed {
				r.line(".PP")
			}
			r.sentences(part)
		}
	}
}

// term writes a word, which is roff, and what it is.
func (r *roff) term(word, what string) {
	r.line(".TP")
	r.line(word)
	if strings.TrimSpace(what) == "" {
		r.line(`\&`)
		return
	}
	r.sentences(what)
}

// describe writes what a command does.
func (r *roff) describe(n *kong.Node) {
	r.paragraph(n.Help)
	r.paragraph(n.Detail)
	if len(n.Aliases) > 0 {
		r.paragraph("Other names: " + strings.Join(n.Aliases, ", ") + ".")
	}
}

// synopsis writes how a command is typed. Flags that must be there are named.
func (r *roff) synopsis(n *kong.Node) {
	words := []string{bold(path(n))}
	for _, f := range visible(flagsOf(n)) {
		if f.Required {
			words = append(words, flagWord("--"+f.Name, f))
		}
	}
	words = append(words, "["+italic("FLAG")+"]...")
	for _, arg := range n.Positional {
		word := italic(strings.ToUpper(arg.Name))
		if arg.IsCumulative() {
			word += "..."
		}
		if !arg.Required {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	r.line(strings.Join(words, " "))
}

// flagsOf are the flags of a command and of those above it, but for the program's.
func flagsOf(n *kong.Node) (list []*kong.Flag) {
	if n.Parent == nil {
		return nil
	}
	list = append(list, flagsOf(n.Parent)...)
	list = append(list, n.Flags...)
	if n.DefaultCmd != nil {
		list = append(list, n.DefaultCmd.Flags...)
	}
	return list
}

// operands writes the arguments of a command and its own flags.
func (r *roff) operands(n *kong.Node) {
	for _, arg := range n.Positional {
		r.term(italic(strings.ToUpper(arg.Name)), arg.Help)
	}
	flags := visible(n.Flags)
	if n.DefaultCmd != nil {
		flags = append(flags, visible(n.DefaultCmd.Flags)...)
	}
	r.flags(flags)
	if len(n.Positional) == 0 && len(flags) == 0 {
		r.paragraph("It has no flags but --help.")
	}
}

// flags writes what each flag is.
func (r *roff) flags(flags []*kong.Flag) {
	for _, f := range visible(flags) {
		word := flagWord("--"+f.Name, f)
		if f.Tag != nil && f.Tag.Negatable != "" {
			word = flagWord("--[no-]"+f.Name, f)
		}
		if f.Short != 0 {
			word = bold("-"+string(f.Short)) + ", " + word
		}
		r.term(word, f.Help+defaultOf(f))
	}
}

// flagWord is a flag with its value as roff.
func flagWord(name string, f *kong.Flag) string {
	if f.IsBool() || f.IsCounter() {
		return bold(name)
	}
	return bold(name) + "=" + italic(placeholder(f))
}

// placeholder stands for a flag's value.
func placeholder(f *kong.Flag) string {
	if f.PlaceHolder != "" {
		return f.PlaceHolder
	}
	return strings.ToUpper(f.Name)
}

func defaultOf(f *kong.Flag) string {
	if !f.HasDefault || f.Default == "" || f.IsBool() {
		return ""
	}
	return " Default: " + f.Default + "."
}

func (r *roff) seeAlso(pages []string) {
	if len(pages) == 0 {
		return
	}
	r.section("SEE ALSO")
	for i, page := range pages {
		name, section, _ := strings.Cut(page, "(")
		word := bold(name) + "(" + section
		if i < len(pages)-1 {
			word += ","
		}
		r.line(word)
	}
}

// parts writes sections of text and terms.
func (r *roff) parts(list []Part) {
	for _, part := range list {
		r.section(strings.ToUpper(part.Title))
		for _, text := range part.Text {
			r.paragraph(text)
		}
		for _, term := range part.Terms {
			r.term(bold(term.Word), term.What)
		}
	}
}
