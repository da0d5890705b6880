package hardware

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/doctor/sysfs"
)

// memory reads modules from the firmware's table, which root alone may read, and channels from the kernel's error
// detection (EDAC) or else from the names of the modules' banks.
func (r *reader) memory(m *facts.Memory) {
	const table = "firmware/dmi/tables/DMI"
	data, err := os.ReadFile(filepath.Join(r.Sys, table))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.missing("memory modules", sysfs.ErrNone)
	case errors.Is(err, fs.ErrPermission):
		r.missing("memory modules", errors.New("/sys/"+table+" is root's: run it as root, or use --sudo"))
	case err != nil:
		r.missing("memory modules", err)
	default:
		if m.Modules, err = parseModules(data); err != nil {
			r.missing("memory modules", err)
		}
	}
	if m.Channels = r.edacChannels(); m.Channels == 0 {
		m.Channels = namedChannels(m.Modules)
	}
	if m.Channels == 0 {
		r.missing("memory channels", errors.New("not readable here: neither the kernel's EDAC nor the names of memory modules tell them"))
	}
}

// edacChannels counts channels with memory: the words of dimm_location, like "channel 0 slot 1".
func (r *reader) edacChannels() int {
	files, err := filepath.Glob(filepath.Join(r.Sys, "devices/system/edac/mc/mc[0-9]*/*/dimm_location"))
	if err != nil {
		return 0
	}
	channels := map[string]bool{}
	for _, file := range files {
		dir := filepath.Dir(file)
		text, err := sysfs.Value(file)
		if err != nil || sysfs.Number(dir, "size") == 0 {
			continue
		}
		words := strings.Fields(text)
		for i := 0; i+1 < len(words); i++ {
			if words[i] == "channel" {
				channels[filepath.Base(filepath.Dir(dir))+"/"+words[i+1]] = true
			}
		}
	}
	return len(channels)
}

// channelName is how firmware calls a channel in the names of banks and modules.
var channelName = regexp.MustCompile(`(?i)^(.*channel[ _]*[a-z0-9]+)`)

// namedChannels counts different channels, 0 unless each module names one.
func namedChannels(modules []facts.Module) int {
	channels := map[string]bool{}
	for _, m := range modules {
		name := channelName.FindString(m.Bank)
		if name == "" {
			name = channelName.FindString(m.Locator)
		}
		if name == "" {
			return 0
		}
		channels[name] = true
	}
	return len(channels)
}

// Structures of SMBIOS (DMTF DSP0134, 6.1.2 and 7.18).
const (
	structureHeader = 4
	memoryDevice    = 17
	endOfTable      = 127
)

// parseModules reads the memory devices of a table that have a size.
func parseModules(table []byte) (found []facts.Module, err error) {
	for len(table) >= structureHeader {
		kind, length := table[0], int(table[1])
		if length < structureHeader || length > len(table) {
			return nil, fmt.Errorf("SMBIOS table: a structure of %d bytes where %d are left", length, len(table))
		}
		words, rest, ok := structureStrings(table[length:])
		if !ok {
			return nil, errors.New("SMBIOS table: strings without an end")
		}
		if kind == memoryDevice {
			if m, ok := module(table[:length], words); ok {
				found = append(found, m)
			}
		}
		if kind == endOfTable {
			break
		}
		table = rest
	}
	return found, nil
}

// structureStrings are the strings after a structure, which end with an empty one.
func structureStrings(data []byte) (words []string, rest []byte, ok bool) {
	if len(data) >= 2 && data[0] == 0 && data[1] == 0 {
		return nil, data[2:], true
	}
	for len(data) > 0 {
		end := bytes.IndexByte(data, 0)
		if end < 0 {
			return nil, nil, false
		}
		if end == 0 {
			return words, data[1:], true
		}
		words, data = append(words, string(data[:end])), data[end+1:]
	}
	return nil, nil, false
}

// memoryTypes are those of servers of the last years; others are shown as numbers.
var memoryTypes = map[byte]string{0x18: "DDR3", 0x1A: "DDR4", 0x1D: "LPDDR3", 0x1E: "LPDDR4", 0x20: "HBM", 0x21: "HBM2", 0x22: "DDR5", 0x23: "LPDDR5"}

// module is a memory device; ok is false for an empty slot or an unknown size.
func module(s []byte, words []string) (m facts.Module, ok bool) {
	const least = 0x15
	if len(s) < least {
		return m, false
	}
	word := func(at int) int {
		if at+2 > len(s) {
			return 0
		}
		return int(binary.LittleEndian.Uint16(s[at:]))
	}
	text := func(at int) string {
		if n := int(s[at]); n > 0 && n <= len(words) {
			return strings.TrimSpace(words[n-1])
		}
		return ""
	}
	switch size := word(0x0C); {
	case size == 0 || size == 0xFFFF:
		return m, false
	case size == 0x7FFF && len(s) >= 0x20: // in the extended size, in MiB
		m.Bytes = int64(binary.LittleEndian.Uint32(s[0x1C:])&0x7FFFFFFF) << 20
	case size&0x8000 != 0: // in KiB
		m.Bytes = int64(size&0x7FFF) << 10
	default:
		m.Bytes = int64(size) << 20
	}
	m.Locator, m.Bank = text(0x10), text(0x11)
	if m.Type = memoryTypes[s[0x12]]; m.Type == "" {
		m.Type = "type " + strconv.Itoa(int(s[0x12]))
	}
	if m.MTs = word(0x20); m.MTs == 0 || m.MTs == 0xFFFF { // as configured
		m.MTs = word(0x15)
	}
	if m.MTs == 0xFFFF {
		m.MTs = 0
	}
	return m, true
}
