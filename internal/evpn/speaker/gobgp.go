package speaker

import (
	"errors"
	"net"
	"reflect"
	"unsafe"

	"github.com/osrg/gobgp/v4/pkg/server"
)

// feed has GoBGP take connections from a channel, as it takes those of its own listeners, of which it has none here. GoBGP has no
// option for it: see docs/decisions/0039-messages-before-gobgp.md. It is to be called before Serve.
func feed(b *server.BgpServer, connections chan net.Conn) error {
	field := reflect.ValueOf(b).Elem().FieldByName("acceptCh")
	if !field.IsValid() || field.Type() != reflect.TypeOf(connections) {
		return errors.New("this version of GoBGP takes connections in another way than is known")
	}
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(connections))
	return nil
}
