package policy

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// scopes are where rules are asked: at which places, and in which direction.
type scopes struct {
	*dimension
	sets  *catalogue
	known []scope // by setID, 0 is none
	ids   map[scope]setID
	at    [2][]uint32 // list of each place, by direction: in, out
}

type scope struct {
	places    setID
	direction overlay.Direction
}

func newScopes(sets *catalogue) *scopes {
	return &scopes{sets: sets, known: make([]scope, 1), ids: map[scope]setID{}}
}

func (s *scopes) id(places setID, direction overlay.Direction) (setID, error) {
	switch direction {
	case overlay.In, overlay.Out, overlay.Both:
	default:
		return 0, fmt.Errorf("direction %q is none of in, out and both", direction)
	}
	key := scope{places, direction}
	id, known := s.ids[key]
	if !known {
		id = setID(len(s.known))
		s.known = append(s.known, key)
		s.ids[key] = id
	}
	return id, nil
}

// place says in which scopes each of the places is.
func (s *scopes) place(rules []rule, places int) error {
	s.dimension = newDimension("scope", len(s.known), func(yield func(setID) bool) {
		for i := range rules {
			if !yield(rules[i].scope) {
				return
			}
		}
	})
	for d, direction := range []overlay.Direction{overlay.In, overlay.Out} {
		at := make([][]setID, places)
		if err := s.gather(at, direction); err != nil {
			return err
		}
		s.at[d] = make([]uint32, places)
		for i := range at {
			slices.SortFunc(at[i], s.byRank)
			n, err := s.list(at[i], scopeLimit)
			if err != nil {
				return err
			}
			s.at[d][i] = n
		}
	}
	return nil
}

func (s *scopes) gather(at [][]setID, direction overlay.Direction) error {
	for i, known := range s.known {
		if known.direction != overlay.Both && known.direction != direction {
			continue
		}
		if known.places == anySet {
			for place := range at {
				at[place] = append(at[place], setID(i))
			}
			s.work += len(at)
		} else {
			for _, place := range s.sets.sets[known.places].places {
				at[place] = append(at[place], setID(i))
			}
			s.work += len(s.sets.sets[known.places].places)
		}
		if s.work > maxWork {
			return &tooLarge{"the ports that rules are applied to overlap in too many ways"}
		}
	}
	return nil
}
