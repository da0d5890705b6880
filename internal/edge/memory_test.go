package edge

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// fileRSS is how much of this program is in memory, in kB.
func fileRSS(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "RssFile:" {
			kB, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kB
		}
	}
	t.Fatal("no RssFile in /proc/self/status")
	return 0
}

// What a start read of the program is given back, and the program goes on.
func TestFreeMemory(t *testing.T) {
	exe, err := os.ReadFile("/proc/self/exe") // which has it in the cache of the kernel
	if err != nil {
		t.Fatal(err)
	}
	before := fileRSS(t)
	if err := freeMemory(); err != nil {
		t.Fatal(err)
	}
	after := fileRSS(t)
	t.Logf("%d kB of %d kB before, %d kB after", before, len(exe)>>10, after)
	if after >= before {
		t.Errorf("%d kB of the program are in memory, %d kB before", after, before)
	}
}
