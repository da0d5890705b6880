package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// block is a fenced block of a Markdown file.
type block struct {
	line  int // of the opening fence, from 1
	lang  string
	marks []string // words after the language
	lines []string
}

// shown is a command in a block, with the output that stands below it.
type shown struct {
	line   int
	text   string
	output []string
}

var fence = regexp.MustCompile("^( *)(```+|~~~+)(.*)$")

// split returns the fenced blocks and the text with them blanked out.
func split(markdown string) (blocks []block, prose []string) {
	var open *block
	var mark string
	for i, line := range strings.Split(markdown, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			words := append(strings.Fields(m[3]), "")
			open, mark = &block{line: i + 1, lang: words[0], marks: words[1:]}, m[2]
		case open != nil && m != nil && m[2] == mark && strings.TrimSpace(m[3]) == "":
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.lines = append(open.lines, line)
		default:
			prose = append(prose, line)
			continue
		}
		prose = append(prose, "")
	}
	return blocks, prose
}

// run says whether the block is run here, and the exit status it ends with.
func (b block) run() (marked bool, exit int, err error) {
	for _, m := range b.marks {
		value, isExit := strings.CutPrefix(m, "exit=")
		switch {
		case m == "run":
			marked = true
		case m == "lab": // see inLab
		case isExit:
			if exit, err = strconv.Atoi(value); err != nil {
				return false, 0, fmt.Errorf("%s: %w", m, err)
			}
		case m != "":
			return false, 0, fmt.Errorf("unknown mark %q; there are run, lab and exit=N", m)
		}
	}
	return marked, exit, nil
}

// inLab says whether the block is run in selvage lab shell.
func (b block) inLab() bool { return slices.Contains(b.marks, "lab") }

// commands returns those of a console or sh block, with continued lines joined.
func (b block) commands() []shown {
	var found []shown
	continued := false
	for i, line := range b.lines {
		text, prompted := line, b.lang == "sh"
		if b.lang == "console" {
			for _, prompt := range []string{"$ ", "# ", labPrompt} {
				if after, ok := strings.CutPrefix(strings.TrimSpace(line), prompt); ok {
					text, prompted = after, true
				}
			}
		}
		switch {
		case continued:
			last := &found[len(found)-1]
			last.text = strings.TrimSuffix(last.text, "\\") + strings.TrimSpace(line)
		case !prompted:
			if len(found) > 0 {
				found[len(found)-1].output = append(found[len(found)-1].output, line)
			}
			continue
		case strings.TrimSpace(text) == "" || strings.HasPrefix(strings.TrimSpace(text), "#"):
			continue
		default:
			found = append(found, shown{line: b.line + i + 1, text: strings.TrimSpace(text)})
		}
		continued = strings.HasSuffix(found[len(found)-1].text, "\\")
	}
	return found
}

// configuration is the file that a YAML block shows, if it shows one. A block that begins with
// spec is a part of a file: it gets the head of one, and an underlay where it has none.
func configuration(b block) (text string, shown bool) {
	text = strings.Join(b.lines, "\n") + "\n"
	part, isPart := strings.CutPrefix(text, "spec:\n")
	switch {
	case b.lang != "yaml":
		return "", false
	case strings.HasPrefix(text, "apiVersion: selvage"):
		return text, true
	case !isPart:
		return "", false
	}
	head := "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: host-a}\nspec:\n"
	if !strings.Contains("\n"+part, "\n  underlay:") {
		head += "  underlay: {interfaces: [eth0], tep: 192.0.2.1}\n"
	}
	return head + part, true
}

// labPrompt is that of selvage lab shell.
const labPrompt = "lab# "

var word = regexp.MustCompile(`^(?:[^\s'"|&;<>]|'[^']*'|"[^"]*")+`)

// simple splits a line of shell at its operators into commands of words,
// without redirections, assignments, sudo, ip netns exec and on HOST.
func simple(line string) (commands [][]string, err error) {
	var words []string
	end := func() {
		if words = bare(words); len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	redirected := false
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		w := word.FindString(rest)
		switch {
		case strings.HasPrefix(w, "#"):
			rest = ""
		case w != "":
			rest = rest[len(w):]
			if descriptor := w == "2" && strings.HasPrefix(rest, ">"); !redirected && !descriptor {
				words = append(words, strings.NewReplacer("'", "", `"`, "").Replace(w))
			}
			redirected = false
		case strings.ContainsRune("<>", rune(rest[0])):
			rest = strings.TrimLeft(rest, "<>&")
			redirected = true
		case strings.ContainsRune("|&;", rune(rest[0])):
			rest = strings.TrimLeft(rest, "|&;")
			end()
		default:
			return nil, fmt.Errorf("quotes do not match in %q", line)
		}
	}
	end()
	return commands, nil
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// bare removes what stands before a command.
func bare(words []string) []string {
	for len(words) > 0 {
		switch {
		case assignment.MatchString(words[0]), words[0] == "sudo", words[0] == "time":
			words = words[1:]
		case len(words) > 4 && slices.Equal(words[:3], []string{"ip", "netns", "exec"}):
			words = words[4:]
		case len(words) > 2 && words[0] == "on": // of selvage lab shell
			words = words[2:]
		default:
			words[0] = strings.TrimPrefix(strings.TrimPrefix(words[0], "./"), "bin/")
			return words
		}
	}
	return nil
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	link       = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|^\s*\[[^\]]+\]:\s*(\S+)|(?:src|href)="([^"]+)"`)
	heading    = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	notSlug    = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// links returns the targets in a line of prose.
func links(line string) []string {
	var targets []string
	for _, m := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
		targets = append(targets, m[1]+m[2]+m[3])
	}
	return targets
}

// anchors returns the names that GitHub gives to the headings.
func anchors(prose []string) map[string]bool {
	names := map[string]bool{}
	for _, line := range prose {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		unique := name
		for n := 1; names[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", name, n)
		}
		names[unique] = true
	}
	return names
}

func TestBlocks(t *testing.T) {
	blocks, prose := split("# A\n```console run exit=2\n$ selvage check \\\n    x.yaml\nx.yaml: bad\n# ip link\n```\ntext\n```sh\n# why\nmake build\n```\n")
	if d := cmp.Diff([]string{"# A", "", "", "", "", "", "", "text", "", "", "", "", ""}, prose); d != "" {
		t.Errorf("prose (-want +got):\n%s", d)
	}
	var got []shown
	for _, b := range blocks {
		got = append(got, b.commands()...)
	}
	want := []shown{
		{line: 3, text: "selvage check x.yaml", output: []string{"x.yaml: bad"}},
		{line: 6, text: "ip link"},
		{line: 11, text: "make build"},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(shown{})); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
	if marked, exit, err := blocks[0].run(); !marked || exit != 2 || err != nil {
		t.Errorf("run: %v, %d, %v, want true, 2, nil", marked, exit, err)
	}
}

func TestConfigurationOfABlock(t *testing.T) {
	const head = "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: host-a}\nspec:\n"
	for _, c := range []struct {
		lang, text, want string
	}{
		{"yaml", "apiVersion: selvage.dev/v1alpha1\nkind: Edge", "apiVersion: selvage.dev/v1alpha1\nkind: Edge\n"},
		{"yaml", "spec:\n  bgp: {}", head + "  underlay: {interfaces: [eth0], tep: 192.0.2.1}\n  bgp: {}\n"},
		{"yaml", "spec:\n  underlay: {}", head + "  underlay: {}\n"},
		{"yaml", "rules: []", ""},
		{"text", "spec:\n  bgp: {}", ""},
	} {
		got, shown := configuration(block{lang: c.lang, lines: strings.Split(c.text, "\n")})
		if got != c.want || shown != (c.want != "") {
			t.Errorf("%s %q: %q, %v, want %q", c.lang, c.text, got, shown, c.want)
		}
	}
}

func TestSimple(t *testing.T) {
	for line, want := range map[string][][]string{
		"sudo bin/selvage status -o json | jq '.a | .b'":       {{"selvage", "status", "-o", "json"}, {"jq", ".a | .b"}},
		"selvage schema >edge.json 2>/dev/null && cat x; ls":   {{"selvage", "schema"}, {"cat", "x"}, {"ls"}},
		"sudo ip netns exec a ./selvage edge -c a.yaml &":      {{"selvage", "edge", "-c", "a.yaml"}},
		"on guest1 ping -c 3 10.0.0.2; reload host1":           {{"ping", "-c", "3", "10.0.0.2"}, {"reload", "host1"}},
		"CGO_ENABLED=0 make build # Go only":                   {{"make", "build"}},
		`iperf3 -c 10.0.0.2 --title="two words" -t 10 # so it`: {{"iperf3", "-c", "10.0.0.2", "--title=two words", "-t", "10"}},
	} {
		got, err := simple(line)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", line, err, d)
		}
	}
	if _, err := simple("echo 'open"); err == nil {
		t.Error("an open quote was accepted")
	}
}

func TestLinksAndAnchors(t *testing.T) {
	got := links("See [a](docs/a.md#x-y), ![p](p.svg \"picture\"), `[no](no.md)` and <img src=\"i.png\">.")
	if d := cmp.Diff([]string{"docs/a.md#x-y", "p.svg", "i.png"}, got); d != "" {
		t.Errorf("links (-want +got):\n%s", d)
	}
	want := map[string]bool{"what-it-costs-ratios": true, "state": true, "state-1": true}
	if d := cmp.Diff(want, anchors([]string{"# What it costs: ratios", "## State", "## State"})); d != "" {
		t.Errorf("anchors (-want +got):\n%s", d)
	}
}
