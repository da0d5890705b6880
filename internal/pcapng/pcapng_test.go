package pcapng

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// golden is a file as the draft has it, block by block, written by hand.
var golden = []string{
	"0a0d0d0a 28000000 4d3c2b1a 0100 0000 ffffffffffffffff" + // section, version 1.0, of any length
		"0400 0100 78000000" + // shb_userappl: "x"
		"00000000 28000000",
	"01000000 30000000 0100 0000 80000000" + // interface, Ethernet, 128 bytes
		"0200 0200 696e0000" + // if_name: "in"
		"0300 0300 61206200" + // if_description: "a b"
		"0900 0100 09000000" + // if_tsresol: 10^-9
		"00000000 30000000",
	"06000000 64000000 00000000 15cd5b07 15cd5b07 05000000 2c010000" + // packet at interface 0: 5 of 300 bytes
		"0102030405000000" +
		"0100 0400 64726f70" + // comment: "drop"
		"0200 0400 01000000" + // epb_flags: inbound
		"0400 0800 0700000000000000" + // epb_dropcount: 7
		"0500 0800 2a00000000000000" + // epb_packetid: 42
		"0700 0900 01 0200000000000000 000000" + // epb_verdict: TC, 2
		"00000000 64000000",
	"05000000 3c000000 00000000 15cd5b07 15cd5b07" + // statistics of interface 0
		"0100 0100 73000000" + // comment: "s"
		"0400 0800 0800000000000000" + // isb_ifrecv: 8
		"0500 0800 0700000000000000" + // isb_ifdrop: 7
		"00000000 3c000000",
}

// at is a time both of whose halves are 0x075bcd15.
var at = time.Unix(0, 0x075bcd15<<32|0x075bcd15)

func write(t *testing.T, out io.Writer) {
	t.Helper()
	w, err := New(out, "x", []Interface{{"in", "a b", 128}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(Packet{
		Time: at, Length: 300, Bytes: []byte{1, 2, 3, 4, 5}, Comment: "drop", Direction: Inbound, ID: 42, Dropped: 7, Hook: TC, Verdict: 2,
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Statistics(0, at, 8, 7, "s"); err != nil {
		t.Fatal(err)
	}
}

// writes keeps what is written at a time.
type writes [][]byte

func (w *writes) Write(b []byte) (int, error) {
	*w = append(*w, slices.Clone(b))
	return len(b), nil
}

// Bytes are those of the draft, and each write ends with a whole block.
func TestGolden(t *testing.T) {
	var got writes
	write(t, &got)
	var blocks []string
	for _, b := range got {
		for len(b) > 0 {
			n := binary.LittleEndian.Uint32(b[4:])
			blocks, b = append(blocks, hex.EncodeToString(b[:n])), b[n:]
		}
	}
	var want []string
	for _, block := range golden {
		want = append(want, strings.ReplaceAll(block, " ", ""))
	}
	if diff := cmp.Diff(want, blocks); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}

// Blocks are whole words, whatever the lengths; what is too long for an option is cut.
func TestLengths(t *testing.T) {
	for n := range 9 {
		for _, comment := range []string{"", "a", "four", strings.Repeat("long ", 20_000)} {
			var out bytes.Buffer
			w, err := New(&out, strings.Repeat("p", n), []Interface{{Name: "i"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(Packet{Bytes: make([]byte, n), Comment: comment}); err != nil {
				t.Fatal(err)
			}
			blocks := 0
			for b := out.Bytes(); len(b) > 0; blocks++ {
				length := binary.LittleEndian.Uint32(b[4:])
				if length%4 != 0 || int(length) > len(b) || binary.LittleEndian.Uint32(b[length-4:]) != length {
					t.Fatalf("%d bytes, comment of %d: block %d is of %d", n, len(comment), blocks, length)
				}
				b = b[length:]
			}
			if blocks != 3 {
				t.Errorf("%d blocks", blocks)
			}
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestFull(t *testing.T) {
	if _, err := New(full{}, "x", nil); err == nil || err.Error() != "write the capture: no space left on device" {
		t.Error(err)
	}
}

// tshark reads what is written.
func TestTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed; TestGolden has the bytes")
	}
	file := filepath.Join(t.TempDir(), "golden.pcapng")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, out)
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	argv := []string{"-r", file, "-T", "fields", "-E", "separator=;"}
	for _, field := range []string{"frame.interface_name", "frame.time_epoch", "frame.cap_len", "frame.len", "frame.comment", "frame.packet_flags_direction", "frame.packet_id", "frame.verdict.ebpf_tc"} {
		argv = append(argv, "-e", field)
	}
	said, err := exec.Command(tshark, argv...).Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Split(strings.TrimSpace(string(said)), ";")
	epoch := fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond())
	want := []string{"in", epoch, "5", "300", "drop", "0x00000001", "42", "2"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("tshark (-want +got):\n%s", diff)
	}
}
