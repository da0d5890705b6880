package problem

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestSum(t *testing.T) {
	note, warning, bad := Note("a"), Warning("b %d", 1), Error("c")
	for _, tt := range []struct {
		list []Problem
		want Verdict
	}{
		{nil, OK}, {[]Problem{note}, OK}, {[]Problem{note, warning}, Degraded}, {[]Problem{bad, warning, note}, Broken},
	} {
		if got := Sum(tt.list); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.list, got, tt.want)
		}
	}
	if got := Texts([]Problem{note, warning}); !slices.Equal(got, []string{"a", "b 1"}) {
		t.Errorf("texts %q", got)
	}
}

// Documents of releases that knew no severities are read too.
func TestJSON(t *testing.T) {
	var list []Problem
	if err := json.Unmarshal([]byte(`["old", {"severity": "error", "text": "new"}]`), &list); err != nil {
		t.Fatal(err)
	}
	if want := []Problem{Warning("old"), Error("new")}; !slices.Equal(list, want) {
		t.Errorf("%v, want %v", list, want)
	}
	if text, err := json.Marshal(list[1]); err != nil || string(text) != `{"severity":"error","text":"new"}` {
		t.Errorf("%s (%v)", text, err)
	}
	if err := json.Unmarshal([]byte(`[7]`), &list); err == nil {
		t.Error("a number is a problem")
	}
}
