package experimenttest

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// missing matches what a report prints for a value that is not there, or that a template refused.
var missing = regexp.MustCompile(`NaN|[+-]Inf\b|%!|<nil>|<no value>|ZgotmplZ|undefined`)

// void are the HTML elements without an end tag.
var void = []atom.Atom{atom.Br, atom.Col, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta}

// outline lists what a page has, a line each: headings, tables with their columns and number of rows, and
// charts; equal lines in a row are one with their number. It is an error if tags do not match, an id is given twice, a value is missing, a row has another
// number of cells than its table, or a table or preformatted text cannot scroll and so may widen the page.
func outline(page string) (string, error) {
	if err := balanced(page); err != nil {
		return "", err
	}
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return "", err
	}
	p := &parts{ids: map[string]bool{}}
	p.walk(root, false)
	var b strings.Builder
	for i := 0; i < len(p.lines); {
		n := 1
		for i+n < len(p.lines) && p.lines[i+n] == p.lines[i] {
			n++
		}
		b.WriteString(p.lines[i])
		if n > 1 {
			fmt.Fprintf(&b, " (%d)", n)
		}
		b.WriteByte('\n')
		i += n
	}
	return b.String(), errors.Join(p.errs...)
}

// balanced is an error if an end tag does not match the element that it ends: html.Parse would mend that.
func balanced(page string) error {
	var open []string
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		kind := z.Next()
		name, _ := z.TagName()
		switch {
		case kind == html.ErrorToken && !errors.Is(z.Err(), io.EOF):
			return z.Err()
		case kind == html.ErrorToken && len(open) > 0:
			return fmt.Errorf("the page ends within <%s>", open[len(open)-1])
		case kind == html.ErrorToken:
			return nil
		case kind == html.StartTagToken && !slices.Contains(void, atom.Lookup(name)):
			open = append(open, string(name))
		case kind == html.EndTagToken && (len(open) == 0 || open[len(open)-1] != string(name)):
			return fmt.Errorf("</%s> ends none of %v", name, open)
		case kind == html.EndTagToken:
			open = open[:len(open)-1]
		}
	}
}

// parts collects the outline of a page.
type parts struct {
	lines []string
	errs  []error
	ids   map[string]bool
}

func (p *parts) fail(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// walk goes through a node; scrolls says that it is within an element that scrolls sideways.
func (p *parts) walk(n *html.Node, scrolls bool) {
	if n.Type == html.TextNode {
		if bad := missing.FindString(n.Data); bad != "" && n.Parent.DataAtom != atom.Script {
			p.fail("%q in %q", bad, n.Data)
		}
	}
	if n.Type == html.ElementNode {
		scrolls = scrolls || slices.Contains(strings.Fields(attribute(n, "class")), "scroll")
		p.element(n, scrolls)
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		p.walk(child, scrolls)
	}
}

func (p *parts) element(n *html.Node, scrolls bool) {
	if id := attribute(n, "id"); id != "" {
		if p.ids[id] {
			p.fail("id %q is given twice", id)
		}
		p.ids[id] = true
	}
	for _, a := range n.Attr {
		if bad := missing.FindString(a.Val); bad != "" {
			p.fail("%q in %s=%q of <%s>", bad, a.Key, a.Val, n.Data)
		}
	}
	switch n.DataAtom {
	case atom.H1, atom.H2, atom.H3:
		if text(n) == "" {
			p.fail("<%s> is empty", n.Data)
		}
		p.lines = append(p.lines, n.Data+" "+text(n))
	case atom.Svg:
		if attribute(n, "viewbox") == "" && attribute(n, "viewBox") == "" {
			p.fail("a chart without viewBox does not shrink: %s", attribute(n, "aria-label"))
		}
		if label := attribute(n, "aria-label"); label != "" {
			p.lines = append(p.lines, "   chart "+label)
		}
	case atom.Table:
		p.table(n, scrolls)
	}
}

func (p *parts) table(n *html.Node, scrolls bool) {
	rows := descendants(n, atom.Tr)
	if len(rows) == 0 {
		p.fail("a table without rows")
		return
	}
	head := cells(rows[0])
	p.lines = append(p.lines, fmt.Sprintf("   table of %d rows: %s", len(rows)-1, strings.Join(head, " | ")))
	if !scrolls && len(head) > 3 {
		p.fail("the table %v does not scroll: a narrow screen cuts it", head)
	}
}

// cells are the texts of a row's cells.
func cells(row *html.Node) (all []string) {
	for c := row.FirstChild; c != nil; c = c.NextSibling {
		if c.DataAtom == atom.Td || c.DataAtom == atom.Th {
			all = append(all, text(c))
		}
	}
	return all
}

// descendants are the elements of a kind below a node.
func descendants(n *html.Node, kind atom.Atom) (all []*html.Node) {
	for d := range n.Descendants() {
		if d.DataAtom == kind {
			all = append(all, d)
		}
	}
	return all
}

// text is what an element shows, in one line.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}
