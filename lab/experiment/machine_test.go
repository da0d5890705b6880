package experiment

import (
	"testing"
)

func TestTurbo(t *testing.T) {
	for _, tt := range [][3]string{
		{"1", notVisible, "off"}, {"0", notVisible, "on"}, {notVisible, "1", "on"}, {notVisible, "0", "off"}, {notVisible, notVisible, notVisible},
	} {
		if got := turbo(tt[0], tt[1]); got != tt[2] {
			t.Errorf("no_turbo %s, boost %s: %s, want %s", tt[0], tt[1], got, tt[2])
		}
	}
}
