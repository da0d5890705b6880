package watch

import (
	"regexp"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
)

func TestCheck(t *testing.T) {
	box := place.Place{Kind: place.SSH, Host: "fw"}
	for want, f := range map[string]Flags{
		"":                        {},
		"belong together":         {WatchDevice: []place.Place{box}},
		"is not reached by SSH":   {[]place.Place{{Kind: place.Namespace, Host: "x"}}, []string{"show"}, []string{`(\d+)`}},
		"error parsing regexp":    {[]place.Place{box}, []string{"show"}, []string{`(\d+`}},
		"no group for the number": {[]place.Place{box}, []string{"show"}, []string{`\d+`}},
	} {
		switch err := f.Check(); {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Counters that grew are told, and how often a box did not answer.
func TestFindings(t *testing.T) {
	d := result.Device{Place: "ssh:fw", Command: "show drops", Asked: 9, Failed: 2, Error: "no route", Series: []result.DeviceSeries{
		{Name: "drops", Times: []float64{1, 2, 3}, Values: []float64{10, 10, 4000}}, {Name: "fixed", Times: []float64{1, 2}, Values: []float64{7, 7}}, {Name: "empty"},
	}}
	var texts []string
	for _, f := range Findings([]result.Device{d}) {
		texts = append(texts, f.Text)
	}
	want := []string{"2 of 9 questions to ssh:fw failed; the first: no route.", "drops of ssh:fw went from 10.0 to 4,000, at most 4,000.", "fixed of ssh:fw stayed at 7.00."}
	if strings.Join(texts, "|") != strings.Join(want, "|") {
		t.Errorf("%q", texts)
	}
}

// What a pattern finds is bounded, named by its group, and a number.
func TestNote(t *testing.T) {
	d := result.Device{}
	pattern := regexp.MustCompile(`(?P<name>CPU\d+).* (?P<value>[\d.]+|NaN)%`)
	note(&d, pattern, 1, "CPU0 states: 12%\nCPU1 states: NaN%\nCPU1 states: 7.5%\n", nil)
	note(&d, pattern, 2, "nothing here", nil)
	many := ""
	for i := range 1000 {
		many += "CPU" + strings.Repeat("1", i%100+1) + " 1%\n"
	}
	note(&d, pattern, 3, many, nil)
	if d.Asked != 3 || d.Failed != 1 || !strings.Contains(d.Error, "finds no number") || len(d.Series) > mostSeries {
		t.Errorf("%+v", d)
	}
	if s := d.Series[1]; s.Name != "CPU1" || s.Values[0] != 7.5 || s.Times[0] != 1 {
		t.Errorf("%+v", s)
	}
	for text, want := range map[string]float64{`load (\d+)`: 5, `(?P<name>load) (\d+)`: 5, `(x)?load (?P<value>\d+)`: 5} {
		p := regexp.MustCompile(text)
		if _, v, ok := valueOf(p, p.FindStringSubmatch("load 5")); !ok || v != want {
			t.Errorf("%s: %v, %v", text, v, ok)
		}
	}
}
