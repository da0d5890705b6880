package agent

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
)

// card is an adapter that has everything, or refuses or rounds it.
type card struct {
	ring     ethtool.Ring
	coalesce ethtool.Coalesce
	fields   map[uint32]uint64
	pause    ethtool.Pause
	refuses  error
	rounds   uint32 // ring sizes, to a multiple
	calls    int
}

func (c *card) Ring(string) (ethtool.Ring, error) { return c.ring, c.refuses }

func (c *card) SetRing(_ string, rx, tx uint32) error {
	c.calls++
	c.ring.RxPending, c.ring.TxPending = rx/c.rounds*c.rounds, tx/c.rounds*c.rounds
	return nil
}

func (c *card) Coalesce(string) (ethtool.Coalesce, error) { return c.coalesce, c.refuses }

func (c *card) SetCoalesce(_ string, to ethtool.Coalesce) error {
	c.calls++
	c.coalesce = to
	return nil
}

func (c *card) RSSFields(_ string, flow uint32) (uint64, error) { return c.fields[flow], c.refuses }

func (c *card) SetRSSFields(_ string, flow uint32, fields uint64) error {
	c.calls++
	c.fields[flow] = fields
	return nil
}

func (c *card) Pause(string) (ethtool.Pause, error) { return c.pause, c.refuses }

func (c *card) SetPause(_ string, to ethtool.Pause) error {
	c.calls++
	c.pause = to
	return nil
}

func newCard() *card {
	return &card{
		ring: ethtool.Ring{RxMaxPending: 4096, TxMaxPending: 2048, RxPending: 512, TxPending: 256}, rounds: 1,
		coalesce: ethtool.Coalesce{RxCoalesceUsecs: 50, UseAdaptiveRxCoalesce: 1},
		fields:   map[uint32]uint64{ethtool.UDPv4: 0x30, ethtool.UDPv6: 0xf0},
		pause:    ethtool.Pause{Autoneg: 1, TxPause: 1},
	}
}

// Each setting is changed, alone, and changed back.
func TestSettings(t *testing.T) {
	for setting, values := range map[string][2]string{
		RxRing: {"512", "4096"}, TxRing: {"256", "2048"}, RxUsecs: {"50", "0"}, AdaptiveRx: {"on", "off"},
		UDPHash4: {HashAddresses, HashPorts}, UDPHash6: {HashPorts, HashAddresses},
		Pauses: {"autoneg+tx", "off"},
	} {
		c := newCard()
		for i, value := range []string{values[0], values[1], values[0]} {
			if err := writeSetting(c, "eth1", setting, value); err != nil {
				t.Errorf("%s=%s: %v", setting, value, err)
			}
			if c.calls != i {
				t.Errorf("%s=%s: %d calls, want %d", setting, value, c.calls, i)
			}
			for _, each := range Settings() {
				now, err := readSetting(c, "eth1", each)
				was, _ := readSetting(newCard(), "eth1", each)
				if each == setting {
					was.Value = value
				}
				if err != nil || now != was {
					t.Errorf("%s=%s: %s is %v, want %v: %v", setting, value, each, now, was, err)
				}
			}
		}
	}
}

// What a driver rounds, refuses or does not have is an error, and so is a value that is none.
func TestSettingErrors(t *testing.T) {
	for want, try := range map[string]func(c *card) error{
		"eth1:rx-ring=700: the driver made it 512": func(c *card) error { c.rounds = 512; return writeSetting(c, "eth1", RxRing, "700") },
		"rx-usecs of eth1: the driver has no such setting": func(c *card) error {
			c.refuses = unix.EOPNOTSUPP
			return writeSetting(c, "eth1", RxUsecs, "1")
		},
		"tx-ring of eth1: the driver has no such setting": func(c *card) error { c.ring = ethtool.Ring{}; return writeSetting(c, "eth1", TxRing, "1") },
		"udp4-hash of eth1: it hashes other fields (0x1)": func(c *card) error {
			c.fields[ethtool.UDPv4] = 1
			return writeSetting(c, "eth1", UDPHash4, HashPorts)
		},
		"rx-ring=0: it takes a number":                                         func(c *card) error { return writeSetting(c, "eth1", RxRing, "0") },
		"pause=on: it takes off, or some of autoneg, rx and tx with + between": func(c *card) error { return writeSetting(c, "eth1", Pauses, "on") },
		"adaptive-rx=1: it takes on or off":                                    func(c *card) error { return writeSetting(c, "eth1", AdaptiveRx, "1") },
	} {
		c := newCard()
		if err := try(c); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
