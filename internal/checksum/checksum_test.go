package checksum

import "testing"

// The example of RFC 1071 section 3, cut anywhere, and an odd length.
func TestSum(t *testing.T) {
	b := []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}
	for cut := 0; cut <= len(b); cut += 2 {
		if got := Fold(Add(Add(0, b[:cut]), b[cut:])); got != 0xddf2 {
			t.Errorf("cut at %d: %04x, want ddf2", cut, got)
		}
	}
	if got := Of(b); got != 0x220d {
		t.Errorf("checksum %04x, want 220d", got)
	}
	if got := Fold(Add(0, []byte{0xff, 0xff, 0x01})); got != 0x0100 {
		t.Errorf("odd length: %04x, want 0100", got)
	}
}
