// Package sysfs reads single values of sysfs and procfs.
//
// Its one invariant: what is not there is ErrNone, an error that says so in words for a report.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNone is why a value is unknown that this kernel or machine does not have.
var ErrNone = errors.New("not readable here: this kernel or machine does not have it")

// Value is the content of a file without its newline.
func Value(path ...string) (string, error) {
	data, err := os.ReadFile(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrNone
	}
	return strings.TrimSpace(string(data)), err
}

// Number is the content of a file as a decimal number, 0 where it is none.
func Number(path ...string) int {
	text, err := Value(path...)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// maxCPUs is more than Linux supports.
const maxCPUs = 1 << 16

// List reads a list of CPUs like "0-3,8".
func List(text string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return nil, fmt.Errorf("list of CPUs %q: %w", text, err)
		}
		to, err := strconv.Atoi(last)
		if err != nil || to < from || to-from > maxCPUs {
			return nil, fmt.Errorf("list of CPUs %q: bad range %q", text, part)
		}
		for cpu := from; cpu <= to; cpu++ {
			list = append(list, cpu)
		}
	}
	return list, nil
}
