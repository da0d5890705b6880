package experimenttest

import (
	"strings"
	"testing"
)

// What must not be on a page is found, and a good page is listed.
func TestOutline(t *testing.T) {
	for page, want := range map[string]string{
		`<h2>A</h2><section>`:                               "the page ends within <section>",
		`<section><h2>A</h2></div></section>`:               "</div> ends none of [section]",
		`<h2></h2>`:                                         "<h2> is empty",
		`<p id="a"></p><p id="a"></p>`:                      `id "a" is given twice`,
		`<p>NaN µs</p>`:                                     `"NaN" in "NaN µs"`,
		`<p style="width:%!d(x)"></p>`:                      `"%!" in style=`,
		`<svg aria-label="Loss"></svg>`:                     "a chart without viewBox does not shrink: Loss",
		`<table></table>`:                                   "a table without rows",
		`<table><tr><th>a<th>b<th>c<th>d</th></tr></table>`: "</tr> ends none of",
		`<table><tr><th>a</th><th>b</th><th>c</th><th>d</th></tr></table>`: "does not scroll",
	} {
		if _, err := outline(page); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", page, err, want)
		}
	}
	good := `<h1>V</h1><div class="scroll"><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></div><svg viewBox="0 0 1 1" aria-label="C"></svg><script>x = "NaN"</script>`
	if got, err := outline(good); err != nil || got != "h1 V\n   table of 1 rows: a | b\n   chart C\n" {
		t.Errorf("%q, %v", got, err)
	}
}
