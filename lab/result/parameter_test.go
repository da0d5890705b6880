package result

import (
	"encoding/json"
	"testing"
	"time"
)

func TestParameterString(t *testing.T) {
	for want, p := range map[string]Parameter{
		"5":            Count(5),
		"1000000":      Count(1_000_000),
		"1500 bytes":   Count(1500).In("bytes"),
		"0.01 %":       Of(Number(0.01)).In("%"),
		"10ms":         Time(10 * time.Millisecond),
		"1m30s":        Time(90 * time.Second),
		"false":        Of(Bool(false)),
		"tcp, rr":      Of(Texts{"tcp", "rr"}),
		"64, 1518 B":   Counts([]int{64, 1518}).In("B"),
		"none of them": Words("none of them"),
		"":             Of(Texts{}),
	} {
		if got := p.Explained("of %s", "old").String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A parameter that is absent, or of another kind, is as none.
func TestParameters(t *testing.T) {
	p := Parameters{"n": Count(3), "t": Time(3 * time.Millisecond), "b": Of(Bool(true)), "w": Words("x"), "l": Of(Texts{"x"})}
	if p.Int("n") != 3 || p.Number("t") != 0.003 || p.Time("t") != 3*time.Millisecond || !p.Bool("b") || p.Text("w") != "x" || len(p.Texts("l")) != 1 {
		t.Errorf("%v", p)
	}
	for _, name := range []string{"w", "none"} {
		if p.Number(name) != 0 || p.Int(name) != 0 || p.Time("n") != 0 || p.Bool(name) || p.Texts(name) != nil {
			t.Errorf("%s: %v", name, p)
		}
	}
	if p.Text("n") != "" || Parameters(nil).Text("w") != "" {
		t.Errorf("%v", p)
	}
}

func TestListOfNone(t *testing.T) {
	for _, none := range []Value{Texts(nil), Numbers(nil), Texts{}, Numbers{}} {
		if out, err := json.Marshal(Of(none)); err != nil || string(out) != `{"value":[]}` {
			t.Errorf("%T: %s, %v", none, out, err)
		}
	}
}
