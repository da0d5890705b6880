package why

import (
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOdd draws what interrupted, small and broken runs leave behind.
func TestOdd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":      {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "nothing was measured"},
		"one round":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "1 rounds are fewer"},
		"no plain":     {experimenttest.Without("plain"), "Before and after"},
		"no causes":    {func(r *result.Result) { r.Causes = nil }, "Before and after"},
		"all failed":   {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":        {experimenttest.EachSample("", "", experimenttest.Zeroed), "Method"},
		"hostile name": {func(r *result.Result) { r.Causes[0].Object = `"><script>x</script>` }, "Causes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}
