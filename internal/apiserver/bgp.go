package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/overlay"
)

// noBGP is the answer to a question about BGP that there is none.
func noBGP() error {
	return api.BadRequest{Err: errors.New("this edge does not run BGP: configure spec.bgp")}
}

// bgpUse is nil without BGP.
func bgpUse(e *State) *api.BGPUse {
	if e.BGP != nil {
		return e.BGP.State.Use()
	}
	return nil
}

// bgpDocuments are those about BGP, for which the edge need not stand still.
type bgpDocuments struct {
	now func() *BGP
	log *slog.Logger
}

func (d bgpDocuments) info() (api.BGPInfo, error) {
	b := d.now()
	if b == nil {
		return api.BGPInfo{}, noBGP()
	}
	return b.State.Info(time.Now(), b.Lives()), nil
}

// routes are those that a query chooses.
func (d bgpDocuments) routes(v url.Values) ([]api.BGPRouteInfo, error) {
	b := d.now()
	if b == nil {
		return nil, noBGP()
	}
	q, err := api.ParseBGPRouteQuery(v)
	if err != nil {
		return nil, err
	}
	return b.State.Routes(q, time.Now())
}

func (d bgpDocuments) moves() (api.BGPMovesInfo, error) {
	b := d.now()
	if b == nil {
		return api.BGPMovesInfo{}, noBGP()
	}
	return b.State.Moves(), nil
}

// thawHandler serves the wish that a frozen MAC address may move again.
func (d bgpDocuments) thawHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	query := r.URL.Query()
	mac, err := overlay.ParseMAC(query.Get(api.ArgMAC))
	if err != nil {
		reply(w, nil, api.BadRequest{Err: err})
		return
	}
	b := d.now()
	if b == nil {
		reply(w, nil, noBGP())
		return
	}
	if err := b.Sessions.Thaw(query.Get(api.ArgSegment), mac); err != nil {
		reply(w, nil, err)
		return
	}
	d.log.InfoContext(r.Context(), "MAC address thawed by command", event.Is(event.MACThawed), "segment", query.Get(api.ArgSegment), "mac", mac)
	reply(w, b.State.Moves(), nil)
}

// resetHandler serves the wish for a new session, or for all routes again.
func (d bgpDocuments) resetHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	query := r.URL.Query()
	soft, err := strconv.ParseBool(cmp.Or(query.Get(api.ArgSoft), "true"))
	if err != nil {
		reply(w, nil, api.BadRequest{Err: fmt.Errorf("%s: %q is neither true nor false", api.ArgSoft, query.Get(api.ArgSoft))})
		return
	}
	b := d.now()
	if b == nil {
		reply(w, nil, noBGP())
		return
	}
	if err := b.Sessions.Reset(query.Get(api.ArgNeighbour), soft); err != nil {
		reply(w, nil, err)
		return
	}
	d.log.InfoContext(r.Context(), "BGP session reset by command", event.Is(event.BGPReset), "neighbour", query.Get(api.ArgNeighbour), "soft", soft)
	document, err := d.info()
	reply(w, document, err)
}
