package result

import "testing"

func TestCounted(t *testing.T) {
	for n, want := range map[int]string{0: "0 cores", 1: "1 core", 2: "2 cores"} {
		if got := Counted(n, "core"); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
