package ab

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
)

// Networks that are built and one that exists have one command and flags of their own.
func TestFlagsOfPlaces(t *testing.T) {
	there := "--client ssh:a --server ssh:b --path plain=192.0.2.1 --path overlay=10.0.0.1"
	for line, want := range map[string]string{ // "" is no error
		"": "", there: "", there + " --cases tcp,rr-load --no-reverse --slice 2s": "", "--gateway kernel": "", "--cases transit": "",
		there + " --targets plain":          "--targets is of networks with several targets that the lab builds",
		"--gateway kernel --routed":         "--routed is of networks with several targets",
		"--port 80":                         "--port is of networks that exist",
		"--ssh foo":                         "--ssh is of networks that exist",
		there + " --gateway kernel":         "--gateway builds a network",
		"--gateway cisco":                   "there is no cisco; choose kernel or selvage",
		"--client ssh:a --path a=192.0.2.1": "--server: name the place",
		"--client ssh:a --server ssh:b":     "--path: name at least one",
		"--client addr:192.0.2.1 --server ssh:b --path a=192.0.2.1":               "nothing can run at addr:192.0.2.1",
		there + " --path plain=192.0.2.9":                                         "plain is named twice",
		there + " --cases transit":                                                "between places there is no transit",
		"--cases crr":                                                             "there is no crr without --client",
		there + " --slice 2m":                                                     "--slice: 2m0s is not within",
		there + " --watch-device ssh:fw":                                          "--watch-device, --watch-command and --watch-pattern belong together",
		there + " --watch-device ns:x --watch-command x --watch-pattern (x)":      "ns:x is not reached by SSH",
		there + " --watch-device ssh:fw --watch-command x --watch-pattern x":      "has no group for the number",
		there + " --watch-device ssh:fw --watch-command x --watch-pattern (x":     "missing closing",
		there + " --watch-device ssh:fw --watch-command x --watch-pattern (\\d+)": "",
	} {
		err := experimenttest.Parse(Experiment().Command(), append([]string{"ab"}, strings.Fields(line)...)...)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, not %q", line, err, want)
		}
	}
}
