package docs

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const retiredNames = "docs/internals/retired-names.md"

// retired is a row of a table of that document.
type retired struct {
	names []string
	where []string // folders
}

// readRetired returns the rows below a heading.
func readRetired(t *testing.T, heading string) (rows []retired) {
	t.Helper()
	_, section, found := strings.Cut(readFile(t, retiredNames), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", retiredNames, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 2 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[0]) == "retired" {
			continue
		}
		r := retired{names: list(cells[0])}
		if len(cells) > 2 {
			r.where = list(cells[2])
		}
		rows = append(rows, r)
	}
	if len(rows) < 5 {
		t.Fatalf("%s, %q: %d rows", retiredNames, heading, len(rows))
	}
	return rows
}

// list splits a cell at its commas.
func list(cell string) (out []string) {
	for part := range strings.SplitSeq(cell, ",") {
		out = append(out, strings.Trim(strings.TrimSpace(part), "`"))
	}
	return out
}

// sources are the files that we write, by suffix.
func sources(t *testing.T, suffixes ...string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "bin" || name == "results" || strings.HasSuffix(path, "bpf/include")):
			return filepath.SkipDir
		case !entry.IsDir() && slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) }) && !strings.HasSuffix(name, "_bpfel.go"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of %v: %v", len(files), suffixes, err)
	}
	return files
}

func relative(t *testing.T, path string) string {
	t.Helper()
	name, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// No identifier has a retired word in it.
func TestRetiredWords(t *testing.T) {
	rows := readRetired(t, "Words of identifiers")
	for _, path := range sources(t, ".go", ".c", ".h") {
		name := relative(t, path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for identifier, line := range identifiers(name, text) {
			for _, word := range wordsOf(identifier) {
				if r := retiredIn(rows, name, word); r != "" {
					t.Errorf("%s:%d: %s: the word %s is retired, see %s", name, line, identifier, r, retiredNames)
				}
			}
		}
	}
}

func retiredIn(rows []retired, file, word string) string {
	for _, r := range rows {
		if slices.Contains(r.names, word) && slices.ContainsFunc(r.where, func(w string) bool { return w == "everywhere" || strings.HasPrefix(file, w+"/") }) {
			return word
		}
	}
	return ""
}

// foreign are identifiers of packages that are not ours, and of the releases before.
var foreign = regexp.MustCompile(`^(tcell|http|bgp|BGP_|IFLA_|SO_|TCP_)`)

var (
	comments = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"`)
	cWord    = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// identifiers are those of a file, each with the line of its first use.
func identifiers(name string, text []byte) map[string]int {
	found := map[string]int{}
	if !strings.HasSuffix(name, ".go") {
		text = comments.ReplaceAllFunc(text, func(c []byte) []byte { return bytes.Repeat([]byte("\n"), bytes.Count(c, []byte("\n"))) })
		for _, at := range cWord.FindAllIndex(text, -1) {
			if id := string(text[at[0]:at[1]]); found[id] == 0 {
				found[id] = 1 + bytes.Count(text[:at[0]], []byte("\n"))
			}
		}
		return found
	}
	set := token.NewFileSet()
	file := set.AddFile(name, set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return found
		case tok == token.IDENT && found[literal] == 0 && !foreign.MatchString(literal):
			found[literal] = set.Position(pos).Line
		}
	}
}

// wordsOf splits an identifier at underscores and humps, in lower case.
func wordsOf(identifier string) (words []string) {
	start, runes := 0, []rune(identifier)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || runes[i] == '_' || unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			words = append(words, strings.ToLower(strings.Trim(string(runes[start:i]), "_")))
			start = i
		}
	}
	return words
}

// What users met under another name is nowhere any more: not in programs, documents,
// examples or scripts.
func TestRetiredMetricsAndCommands(t *testing.T) {
	var names []string
	for _, heading := range []string{"Metrics", "Commands and the API"} {
		for _, r := range readRetired(t, heading) {
			for _, name := range r.names {
				if strings.ContainsAny(name, "-/") || strings.HasPrefix(name, "selvage_") || strings.ContainsRune(name, '_') {
					names = append(names, regexp.QuoteMeta(name))
				}
			}
		}
	}
	pattern := regexp.MustCompile(`(^|[^\w-])(` + strings.Join(names, "|") + `)($|[^\w-])`)
	for _, path := range sources(t, ".go", ".md", ".yaml", ".sh", ".html", ".txtar", "Makefile") {
		name := relative(t, path)
		if name == retiredNames || name == "CHANGELOG.md" || strings.HasPrefix(name, "docs/decisions/") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if m := pattern.FindStringSubmatch(line); m != nil {
				t.Errorf("%s:%d: %s is retired, see %s", name, i+1, m[2], retiredNames)
			}
		}
	}
}

// The data path has no reason, event or map of a retired name, and the configuration no such field.
func TestRetiredReasonsMapsAndFields(t *testing.T) {
	header := readFile(t, "bpf/core/reasons.h")
	known := map[string]bool{}
	for _, list := range []string{"REASONS", "SLOWS", "STAGES", "EVENTS"} {
		words := inHeader(header, list)
		if len(words) == 0 {
			t.Fatalf("bpf/core/reasons.h has no list %s", list)
		}
		for _, w := range words {
			known[w.Name] = true
		}
	}
	for _, r := range readRetired(t, "Reasons and events") {
		for _, name := range r.names {
			if known[name] {
				t.Errorf("bpf/core/reasons.h has %s, which is retired", name)
			}
		}
	}
	var maps strings.Builder
	for _, path := range sources(t, ".h", ".bpf.c") {
		maps.WriteString(readFile(t, relative(t, path)))
	}
	for _, r := range readRetired(t, "Maps") {
		for _, name := range r.names {
			if regexp.MustCompile(`MAP\([^,]*, ` + name + `,|\} ` + name + ` SEC\("\.maps"\)`).MatchString(maps.String()) {
				t.Errorf("the map %s is retired", name)
			}
		}
	}
	schema := readFile(t, "internal/config/convert.go")
	for _, r := range readRetired(t, "Configuration") {
		for _, path := range r.names {
			if at := strings.LastIndexByte(path, '.'); !strings.Contains(schema, `"`+path[at+1:]+`"`) {
				t.Errorf("internal/config/convert.go does not convert %s", path)
			}
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// One spelling of a word: the right one, and others that mean the same. Commands and
// options of other programs keep theirs.
var spellings = []struct {
	right  string
	others *regexp.Regexp
}{
	{"learned", regexp.MustCompile(`(?i)\blearnt\b`)},
	{"neighbour", regexp.MustCompile(`(?i)\bneighbors?\b`)},
	{"behaviour", regexp.MustCompile(`(?i)\bbehaviors?\b`)},
	{"data path", regexp.MustCompile(`(?i)\bdata-?planes\b|\bdata-paths?\b`)},
	{"fall back", regexp.MustCompile(`(?i)\bfallbacked\b`)},
	{"advertise", regexp.MustCompile(`(?i)\badvertiz`)},
}

// ofOthers is where others' spellings stand: in commands and code of other programs.
var ofOthers = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|^    .*$|^\\s*(ip|bridge|vtysh|neighbor|router|show) .*$")

func TestOneSpelling(t *testing.T) {
	for _, path := range sources(t, ".md") {
		name := relative(t, path)
		if name == retiredNames || name == "docs/reference/glossary.md" || strings.HasPrefix(name, "docs/decisions/") {
			continue
		}
		fenced := false
		for i, line := range strings.Split(readFile(t, name), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if fenced {
				continue
			}
			for _, s := range spellings {
				if m := s.others.FindString(ofOthers.ReplaceAllString(line, "")); m != "" {
					t.Errorf("%s:%d: %q is %q here", name, i+1, m, s.right)
				}
			}
		}
	}
}
