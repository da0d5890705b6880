package edge

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
)

// noBGP is the answer to a question about BGP that there is none.
func noBGP() error {
	return api.BadRequest{Err: errors.New("this edge does not run BGP: configure spec.bgp")}
}

// bgpUse is nil without BGP.
func (e *edge) bgpUse() *api.BGPUse {
	if b := e.bgp.Load(); b != nil {
		return b.State().Use()
	}
	return nil
}

func (e *edge) bgpDocument() (api.BGPInfo, error) {
	b := e.bgp.Load()
	if b == nil {
		return api.BGPInfo{}, noBGP()
	}
	return b.State().Info(time.Now(), e.pathSelector.neighbourLives()), nil
}

// bgpRouteDocuments are the routes that a query chooses.
func (e *edge) bgpRouteDocuments(v url.Values) ([]api.BGPRouteInfo, error) {
	b := e.bgp.Load()
	if b == nil {
		return nil, noBGP()
	}
	q, err := api.ParseBGPRouteQuery(v)
	if err != nil {
		return nil, err
	}
	return b.State().Routes(q, time.Now())
}

func (e *edge) bgpMovesDocument() (api.BGPMovesInfo, error) {
	b := e.bgp.Load()
	if b == nil {
		return api.BGPMovesInfo{}, noBGP()
	}
	return b.State().Moves(), nil
}

// thawHandler serves the wish that a frozen MAC address may move again.
func (e *edge) thawHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	query := r.URL.Query()
	mac, err := overlay.ParseMAC(query.Get(api.ArgMAC))
	if err != nil {
		reply(w, nil, api.BadRequest{Err: err})
		return
	}
	b := e.bgp.Load()
	if b == nil {
		reply(w, nil, noBGP())
		return
	}
	if err := b.Thaw(query.Get(api.ArgSegment), mac); err != nil {
		reply(w, nil, err)
		return
	}
	reply(w, b.State().Moves(), nil)
}

// resetHandler serves the wish for a new session, or for all routes again.
func (e *edge) resetHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	query := r.URL.Query()
	soft, err := strconv.ParseBool(cmp.Or(query.Get(api.ArgSoft), "true"))
	if err != nil {
		reply(w, nil, api.BadRequest{Err: fmt.Errorf("%s: %q is neither true nor false", api.ArgSoft, query.Get(api.ArgSoft))})
		return
	}
	b := e.bgp.Load()
	if b == nil {
		reply(w, nil, noBGP())
		return
	}
	if err := b.Reset(query.Get(api.ArgNeighbour), soft); err != nil {
		reply(w, nil, err)
		return
	}
	document, err := e.bgpDocument()
	reply(w, document, err)
}
