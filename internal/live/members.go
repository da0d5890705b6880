package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
)

// group is the JSON of a live group, whose members are kept as they were written.
type group struct {
	Name    string            `json:"name"`
	Members []json.RawMessage `json:"members"`
}

// members adds members to a group, or removes them.
func (w *work) members(kind config.Kind, o api.LiveOperation) error {
	switch {
	case kind != config.KindGroup:
		return api.BadRequest{Err: fmt.Errorf("live %s %s: only groups have members", kind, o.Key)}
	case len(o.Members) == 0:
		return api.BadRequest{Err: fmt.Errorf("live group %s: no members are given", o.Key)}
	}
	k := id{kind, o.Key}
	e, exists := w.look(k)
	switch {
	case !exists && o.Op == api.LiveRemoveMembers && o.IfExists:
		return nil
	case !exists && o.Op == api.LiveRemoveMembers:
		return missing(kind, o.Key)
	}
	if err := w.expect(k, o); err != nil {
		return err
	}
	g := group{Name: o.Key, Members: []json.RawMessage{}}
	if exists {
		if err := json.Unmarshal(e.Text, &g); err != nil {
			return fmt.Errorf("live group %s: %w", o.Key, err)
		}
	}
	if err := g.change(o); err != nil {
		return err
	}
	text, err := json.Marshal(g)
	if err != nil {
		return api.BadRequest{Err: fmt.Errorf("live group %s: %w", o.Key, err)}
	}
	object, err := config.ParseObject(kind, text)
	if err != nil {
		return api.BadRequest{Err: err}
	}
	w.store(k, object, o.Durable)
	return nil
}

func (g *group) change(o api.LiveOperation) error {
	at := make(map[string]int, len(g.Members))
	for i, m := range g.Members {
		at[canonical(m)] = i
	}
	for _, m := range o.Members {
		text := canonical(m)
		i, known := at[text]
		switch {
		case o.Op == api.LiveAddMembers && !known:
			at[text] = len(g.Members)
			g.Members = append(g.Members, json.RawMessage(text))
		case o.Op == api.LiveRemoveMembers && known:
			g.Members[i] = nil
			delete(at, text)
		case o.Op == api.LiveRemoveMembers && !o.IfExists:
			return conflict(http.StatusNotFound, nil, "live group %s has no member %s: selvage group show %s lists them", o.Key, text, o.Key)
		}
	}
	kept := g.Members[:0]
	for _, m := range g.Members {
		if m != nil {
			kept = append(kept, m)
		}
	}
	g.Members = kept
	return nil
}

// canonical is a member so that the same has the same text.
func canonical(m json.RawMessage) string {
	var value any
	if json.Unmarshal(m, &value) != nil {
		return string(bytes.TrimSpace(m))
	}
	text, err := json.Marshal(value) // keys are sorted
	if err != nil {
		return string(m)
	}
	return string(text)
}
