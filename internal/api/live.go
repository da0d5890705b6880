package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Operations on live objects.
const (
	LiveAdd           = "add"            // an object that is not there
	LivePut           = "put"            // an object, whether or not it is there
	LiveSet           = "set"            // fields of one that is there; null takes a field away (RFC 7396)
	LiveRemove        = "remove"         // one that is there
	LiveAddMembers    = "add-members"    // of a group, which is made if it is not there
	LiveRemoveMembers = "remove-members" // of a group
)

// LiveOperation is one change of a live object.
type LiveOperation struct {
	Op   string `json:"op"`
	Kind string `json:"kind"` // "port", "segment", "remote", "fdb", "neighbour" or "group"
	// Key is the name of the object, or its segment and address as in blue/10.0.0.5. It may be left out where Object says it.
	Key string `json:"key,omitempty"`
	// Object has the fields that an object of the kind has in the configuration file.
	Object json.RawMessage `json:"object,omitempty"`
	// Members are those of a group to add or remove.
	Members []json.RawMessage `json:"members,omitempty"`
	// Durable has the object outlast a reboot; left out: as it is, and of a new one until the reboot.
	Durable *bool `json:"durable,omitempty"`
	// IfVersion refuses the change of an object of another version.
	IfVersion uint64 `json:"if_version,omitempty"`
	// MayExist has add be put, and IfExists has set and remove do nothing where there is no such object.
	MayExist bool `json:"may_exist,omitempty"`
	IfExists bool `json:"if_exists,omitempty"`
}

// LiveQuery asks for changes of live objects: all of them or none.
type LiveQuery struct {
	Operations []LiveOperation `json:"operations"`
	// For is on whose behalf, where it is not who asks, as with sudo.
	For string `json:"for,omitempty"`
	// DryRun only says what would change.
	DryRun bool `json:"dry_run,omitempty"`
}

// LiveObject is an object that was added while the edge runs.
type LiveObject struct {
	Kind    string          `json:"kind"`
	Key     string          `json:"key"`
	Version uint64          `json:"version"` // of the change that it comes from
	Durable bool            `json:"durable"`
	By      string          `json:"by"` // who asked for it; of a port by an alias, "alias"
	When    time.Time       `json:"when"`
	Object  json.RawMessage `json:"object"`
	// NotInForce is why it is not in force, "" when it is.
	NotInForce string `json:"not_in_force,omitempty"`
}

// LiveList are all live objects, by kind and key.
type LiveList struct {
	Version uint64       `json:"version"` // of the last change
	Objects []LiveObject `json:"objects"`
}

// LiveInfo is what a change of live objects did, or would do.
type LiveInfo struct {
	Edge    string         `json:"edge"`
	Applied bool           `json:"applied"`
	Version uint64         `json:"version"`
	Changes []ConfigChange `json:"changes"` // at most MaxChanges
	Omitted int            `json:"changes_omitted"`
	// Effects are told of a dry run; else only whether programs were loaded anew.
	Effects ApplyEffects `json:"effects"`
	// LeftOut is what of it could not be written, where that was so before too.
	LeftOut string `json:"left_out,omitempty"`
	// Objects are those that were asked for, as they are now; removed ones are not among them.
	Objects []LiveObject `json:"objects"`
}

// Conflict is a request that does not fit what is there: 404, 409 or 412, or 503 where others have all turns. Current is the live
// object as it is, if it is about one.
type Conflict struct {
	Status  int         `json:"-"`
	Message string      `json:"error"`
	Current *LiveObject `json:"current,omitempty"`
}

// Error says what does not fit.
func (c *Conflict) Error() string { return c.Message }

// LiveClient changes live objects.
type LiveClient struct{ c *Client }

// Live is the client's part about live objects.
func (c *Client) Live() LiveClient { return LiveClient{c} }

// List fetches all live objects.
func (c LiveClient) List(ctx context.Context) (LiveList, error) {
	return Fetch[LiveList](ctx, c.c, "live")
}

// Change has the edge change live objects, all of them or none. A *Conflict says what does not fit.
func (c LiveClient) Change(ctx context.Context, q LiveQuery) (LiveInfo, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return LiveInfo{}, fmt.Errorf("edge %s: live objects: %w", c.c.name, err)
	}
	return post[LiveInfo](ctx, c.c.patient(), "live", bytes.NewReader(text))
}

// conflictOf is the conflict that an answer tells of, nil where it is none.
func conflictOf(status int, r Refusal) *Conflict {
	switch status {
	case http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed:
		return &Conflict{Status: status, Message: r.Error, Current: r.Current}
	}
	return nil
}
