package edge

import (
	"errors"

	"github.com/selvage/selvage/internal/datapath"
)

// successor is a data path that gets the next tables, and takes the place of the one in force then.
type successor struct {
	dp  *DataPath       // nil: there is none
	cfg datapath.Config // of the newest of both
}

// open opens one beside the data path in force, in the place of one that never had tables.
func (s *successor) open(by func(datapath.Config) (*DataPath, error), cfg datapath.Config, inForce *DataPath) error {
	closed := s.close()
	s.cfg = cfg
	cfg.Beside, _ = inForce.Owner.(*datapath.Datapath)
	next, err := by(cfg)
	if err != nil {
		return errors.Join(err, closed)
	}
	s.dp = next
	return closed
}

func (s *successor) close() error {
	dp := s.dp
	if s.dp = nil; dp == nil {
		return nil
	}
	return dp.Owner.Close()
}
