package hardware

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/doctor/facts"
)

// machine is a server with two sockets, as files.
func machine(t *testing.T) Roots {
	t.Helper()
	root := t.TempDir()
	for path, content := range map[string]string{
		"etc/os-release":                "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n",
		"proc/cmdline":                  "BOOT_IMAGE=/vmlinuz root=UUID=1 isolcpus=2-31 mitigations=off quiet -- idle=poll\n",
		"proc/cpuinfo":                  "processor\t: 0\nmodel name\t: AMD EPYC 9354\nmicrocode\t: 0xa101148\nflags\t\t: fpu vme\n\nprocessor\t: 1\nmodel name\t: another\n",
		"sys/class/dmi/id/sys_vendor":   "Dell Inc.\n",
		"sys/class/dmi/id/product_name": "PowerEdge R7625\n",
		"sys/class/dmi/id/bios_version": "1.6.10\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
		"sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq":            "3800000\n",
		"sys/devices/system/cpu/intel_pstate/no_turbo":                    "1\n",
		"sys/devices/system/cpu/cpufreq/boost":                            "1\n",
		"sys/devices/system/cpu/cpuidle/current_driver":                   "acpi_idle\n",
		"sys/devices/system/cpu/cpuidle/current_governor":                 "menu\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state0/name":                 "POLL\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state0/latency":              "0\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state1/name":                 "C2\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state1/latency":              "100\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state1/disable":              "1\n",
		"sys/devices/system/cpu/vulnerabilities/retbleed":                 "Mitigation: untrained return thunk\n",
		"sys/devices/system/cpu/vulnerabilities/mds":                      "Not affected\n",
		"sys/devices/system/edac/mc/mc0/dimm0/dimm_location":              "channel 0 slot 0 \n",
		"sys/devices/system/edac/mc/mc0/dimm0/size":                       "32768\n",
		"sys/devices/system/edac/mc/mc0/dimm1/dimm_location":              "channel 1 slot 0 \n",
		"sys/devices/system/edac/mc/mc0/dimm1/size":                       "0\n",
		"sys/devices/system/edac/mc/mc1/dimm0/dimm_location":              "channel 0 slot 0 \n",
		"sys/devices/system/edac/mc/mc1/dimm0/size":                       "32768\n",
		"sys/firmware/dmi/tables/DMI": string(table(
			device(1, 2, 0x22, 32768, 5600, 4800), []string{"A1", "P0 CHANNEL A"}, device(1, 2, 0x22, 0, 0, 0), []string{"A2", "P0 CHANNEL A"})),
	} {
		plant(t, root, path, content)
	}
	for cpu, core := range map[string][2]string{"cpu0": {"0", "0"}, "cpu1": {"0", "1"}, "cpu2": {"1", "0"}, "cpu3": {"1", "0"}} {
		plant(t, root, "sys/devices/system/cpu/"+cpu+"/topology/physical_package_id", core[0])
		plant(t, root, "sys/devices/system/cpu/"+cpu+"/topology/core_id", core[1])
	}
	return Roots{Sys: filepath.Join(root, "sys"), Proc: filepath.Join(root, "proc"), Etc: filepath.Join(root, "etc")}
}

func plant(t *testing.T, root, path, content string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// device is a memory device as in DMTF DSP0134 7.18, its size in MiB.
func device(locator, bank, kind byte, size, speed, configured uint16) []byte {
	s := make([]byte, 0x28)
	s[0], s[1] = memoryDevice, byte(len(s))
	binary.LittleEndian.PutUint16(s[0x0C:], size)
	if size >= 0x7FFF {
		binary.LittleEndian.PutUint16(s[0x0C:], 0x7FFF)
		binary.LittleEndian.PutUint32(s[0x1C:], uint32(size))
	}
	s[0x10], s[0x11], s[0x12] = locator, bank, kind
	binary.LittleEndian.PutUint16(s[0x15:], speed)
	binary.LittleEndian.PutUint16(s[0x20:], configured)
	return s
}

// table joins structures and their strings, after one of another type without strings.
func table(parts ...any) []byte {
	all := []byte{1, 4, 0, 0, 0, 0}
	for _, p := range parts {
		switch p := p.(type) {
		case []byte:
			all = append(all, p...)
		case []string:
			for _, word := range p {
				all = append(append(all, word...), 0)
			}
			all = append(all, 0)
		}
	}
	return append(all, endOfTable, 4, 0, 0, 0, 0)
}

func TestRead(t *testing.T) {
	got, unknown := Read(machine(t))
	want := facts.Machine{
		OS: "Debian GNU/Linux 13 (trixie)", Arch: got.Arch, Vendor: "Dell Inc.", Product: "PowerEdge R7625", Firmware: "1.6.10",
		Parameters: []string{"isolcpus=2-31", "mitigations=off"}, ClockSource: "tsc",
		CPU: facts.CPU{
			Model: "AMD EPYC 9354", Microcode: "0xa101148", Sockets: 2, Cores: 3, MaxKHz: 3800000, Turbo: new(false), IdleDriver: "acpi_idle", IdleGovernor: "menu",
			IdleStates:  []facts.IdleState{{Name: "POLL"}, {Name: "C2", ExitUS: 100, Disabled: true}},
			Mitigations: map[string]string{"retbleed": "Mitigation: untrained return thunk", "mds": "Not affected"},
		},
		Memory: facts.Memory{Channels: 2, Modules: []facts.Module{{Locator: "A1", Bank: "P0 CHANNEL A", Bytes: 32 << 30, Type: "DDR5", MTs: 4800}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(unknown) > 0 {
		t.Errorf("not known: %+v", unknown)
	}
}

// Each thing that is not there is named once, with a reason.
func TestNothing(t *testing.T) {
	got, unknown := Read(Roots{Sys: t.TempDir(), Proc: t.TempDir(), Etc: t.TempDir()})
	if diff := cmp.Diff(facts.Machine{Arch: got.Arch}, got); diff != "" {
		t.Errorf("of nothing it reads (-want +got):\n%s", diff)
	}
	var names []string
	for _, u := range unknown {
		if u.Why == "" {
			t.Errorf("%s: no reason", u.What)
		}
		names = append(names, u.What)
	}
	slices.Sort(names)
	want := []string{
		"CPU model", "clock source", "idle driver", "idle governor", "idle states", "kernel parameters", "memory channels", "memory modules",
		"mitigations", "operating system", "sockets", "turbo",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("not known (-want +got):\n%s", diff)
	}
}

func TestModules(t *testing.T) {
	for name, c := range map[string]struct {
		table []byte
		want  []facts.Module
	}{
		"large": {table(device(1, 2, 0x1A, 0x8000, 3200, 0), []string{"DIMM 1", "BANK 0"}), []facts.Module{{Locator: "DIMM 1", Bank: "BANK 0", Bytes: 32 << 30, Type: "DDR4", MTs: 3200}}},
		"strings that are missing, and a type that is not known": {table(device(3, 0, 0x7E, 1024, 0xFFFF, 0), []string{"x"}), []facts.Module{{Bytes: 1 << 30, Type: "type 126"}}},
		"unknown size": {table(device(0, 0, 0x1A, 0, 0, 0), []string{"x"}), nil},
		"no end":       {table(device(1, 1, 0x22, 1024, 1, 1), []string{"A"})[:6+0x28+2+1], []facts.Module{{Locator: "A", Bank: "A", Bytes: 1 << 30, Type: "DDR5", MTs: 1}}},
	} {
		got, err := parseModules(c.table)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if n := namedChannels([]facts.Module{{Bank: "P0 CHANNEL A"}, {Bank: "P0 CHANNEL A"}, {Bank: "P0 CHANNEL B"}, {Locator: "P1_Channel0_Dimm1", Bank: "BANK 3"}}); n != 3 {
		t.Errorf("%d channels by name", n)
	}
	if n := namedChannels([]facts.Module{{Bank: "P0 CHANNEL A"}, {Locator: "DIMM_B1"}}); n != 0 {
		t.Errorf("%d channels where one is not named", n)
	}
}

// Firmware's tables are what they are: none crashes the reader.
func FuzzModules(f *testing.F) {
	f.Add(table(device(1, 2, 0x22, 32768, 5600, 4800), []string{"A1", "P0"}))
	f.Add([]byte{17, 4, 0, 0, 0, 0})
	f.Add([]byte{17, 200, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		modules, err := parseModules(data)
		if err != nil && modules != nil {
			t.Errorf("modules and %v", err)
		}
	})
}
