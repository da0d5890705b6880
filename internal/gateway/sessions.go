package gateway

import (
	"slices"
	"sync"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/replica"
)

// recordVersion is that of datapath.NATRecord's binary form.
const recordVersion = 1

// outboxMost is how many bytes are collected before they are handed on.
const outboxMost = 1000 * datapath.NATRecordSize

// Sessions are the NAT sessions of a data path.
type Sessions interface {
	EachNATSession(do func(b *datapath.NATSession) bool) error
	EachNATRecord(do func(r *datapath.NATRecord) bool) error
	ReadNATEvents(most int, do func(n *datapath.NATEvent)) error
	PutNATRecords(records []datapath.NATRecord) (taken, conflicts int, err error)
	DeleteNATRecords(records []datapath.NATRecord) (gone int, err error)
}

// NAT lends the sessions of the edge.
type NAT interface {
	// WithSessions calls do with the configuration and the sessions that belong to it. Neither is
	// replaced meanwhile. An error says that there are none, or is do's.
	WithSessions(do func(e overlay.Edge, all Sessions) error) error
	// Events counts what happened in the data path, by name.
	Events() (map[string]uint64, error)
}

// store is the sessions of this edge as those who replicate them see them.
type store struct {
	nat       NAT
	conflicts sync.Map // of replica.ID: how many uint64
}

// Snapshot is replica.Store's: all sessions of policies that the other gateway shares.
func (s *store) Snapshot(link replica.ID, do func(records []byte)) error {
	return s.nat.WithSessions(func(e overlay.Edge, all Sessions) error {
		hears := audiences(e)
		var b []byte
		return all.EachNATRecord(func(record *datapath.NATRecord) bool {
			if slices.Contains(hears[record.Policy], link) {
				b = appendRecord(b[:0], record)
				do(b)
			}
			return true
		})
	})
}

func appendRecord(b []byte, r *datapath.NATRecord) []byte {
	b, err := r.AppendBinary(b)
	if err != nil { // it never does
		panic(err)
	}
	return b
}

// Put is replica.Store's.
func (s *store) Put(link replica.ID, records []byte) error {
	return s.nat.WithSessions(func(e overlay.Edge, all Sessions) error {
		list, err := parse(e, link, records)
		if err != nil {
			return err
		}
		_, conflicts, err := all.PutNATRecords(list)
		if conflicts > 0 {
			was, _ := s.conflicts.LoadOrStore(link, uint64(0))
			s.conflicts.Store(link, was.(uint64)+uint64(conflicts)) // a link has one reader
		}
		return err
	})
}

// Delete is replica.Store's.
func (s *store) Delete(link replica.ID, records []byte) error {
	return s.nat.WithSessions(func(e overlay.Edge, all Sessions) error {
		list, err := parse(e, link, records)
		if err != nil {
			return err
		}
		_, err = all.DeleteNATRecords(list)
		return err
	})
}

// conflictsOf is how many records of a link did not fit.
func (s *store) conflictsOf(link replica.ID) uint64 {
	n, _ := s.conflicts.Load(link)
	count, _ := n.(uint64)
	return count
}

// parse leaves out the records of policies that the other gateway has no share in.
func parse(e overlay.Edge, link replica.ID, records []byte) ([]datapath.NATRecord, error) {
	hears := audiences(e)
	list := make([]datapath.NATRecord, 0, len(records)/datapath.NATRecordSize)
	for b := range slices.Chunk(records, datapath.NATRecordSize) {
		var record datapath.NATRecord
		if err := record.UnmarshalBinary(b); err != nil {
			return nil, err
		}
		if slices.Contains(hears[record.Policy], link) {
			list = append(list, record)
		}
	}
	return list, nil
}

// outbox is records by who hears of them.
type outbox map[replica.ID][]byte

// add notes a record for all who hear of it.
func (o outbox) add(to []replica.ID, r *datapath.NATRecord) {
	for _, id := range to {
		o[id] = appendRecord(o[id], r)
	}
}

// flush hands over what is more than so many bytes.
func (o outbox) flush(tell func(replica.ID, []byte), most int) {
	for id, records := range o {
		if len(records) > most {
			tell(id, records)
			o[id] = records[:0]
		}
	}
}
