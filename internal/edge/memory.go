package edge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// settlesIn is how long sessions and first looks at everything go on taking memory after the start.
const settlesIn = 10 * time.Second

// freeLater gives memory back when the start, and what follows it, is over.
func freeLater(ctx context.Context, log *slog.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(settlesIn):
	}
	if err := freeMemory(); err != nil {
		log.Debug("memory of the start is kept", "err", err)
	}
}

// freeMemory gives back what only a start takes: what was allocated to load programs, and the pages of this program that
// ran once. The kernel has those in its cache, and maps again what is still used.
func freeMemory() error {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer f.Close()
	var errs []error
	var at region
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		next, begins := regionOf(lines.Text())
		switch {
		case begins:
			at = next
		case at.path == exe && at.isReadOnly && hasNoAnonymous(lines.Text()):
			errs = append(errs, at.forget())
		}
	}
	return errors.Join(append(errs, lines.Err())...)
}

// region is a part of the memory of this process.
type region struct {
	begin, end uintptr
	isReadOnly bool
	path       string
}

// regionOf reads the first line of one of /proc/PID/smaps (proc(5)).
func regionOf(line string) (r region, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 || strings.HasSuffix(fields[0], ":") {
		return r, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	begin, err := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	if err != nil || err2 != nil {
		return r, false
	}
	r = region{begin: uintptr(begin), end: uintptr(end), isReadOnly: strings.HasPrefix(fields[1], "r-") && strings.HasSuffix(fields[1], "p")}
	if len(fields) > 5 {
		r.path = fields[5]
	}
	return r, true
}

// hasNoAnonymous reports whether the line says that all of a region is in its file: what is not must not be forgotten.
func hasNoAnonymous(line string) bool {
	fields := strings.Fields(line)
	return len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0"
}

// forget has the pages of a region be mapped again one by one, and not 2 MiB at a time.
func (r region) forget() error {
	for _, advice := range []uintptr{unix.MADV_NOHUGEPAGE, unix.MADV_DONTNEED} {
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, r.begin, r.end-r.begin, advice)
		if errno != 0 && advice == unix.MADV_DONTNEED { // a kernel without huge pages refuses the other
			return fmt.Errorf("forget pages of %s: %w", r.path, errno)
		}
	}
	return nil
}
