package gen

import (
	"encoding/binary"
	"testing"
	"unsafe"
)

// Go's types have the layout of the kernel's.
func TestLayout(t *testing.T) {
	spec, err := loadGen()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		value    any
		size     uintptr
		declared uint32
	}{
		genMapCounters:             {genCounts{}, unsafe.Sizeof(genCounts{}), spec.Maps[genMapCounters].ValueSize},
		genMapFollowed:             {genFlow{}, unsafe.Sizeof(genFlow{}), spec.Maps[genMapFollowed].ValueSize},
		genMapAddresses:            {genMac{}, unsafe.Sizeof(genMac{}), spec.Maps[genMapAddresses].ValueSize},
		genMapFailedRedirects:      {genInterface{}, unsafe.Sizeof(genInterface{}), spec.Maps[genMapFailedRedirects].KeySize},
		genMapArounds + " (keys)":  {genAround(0), unsafe.Sizeof(genAround(0)), spec.Maps[genMapArounds].KeySize},
		genMapForeigns + " (keys)": {genForeign(0), unsafe.Sizeof(genForeign(0)), spec.Maps[genMapForeigns].KeySize},
		genVarCurrent:              {genRun{}, unsafe.Sizeof(genRun{}), spec.Variables[genVarCurrent].Size()},
		genVarPacketTemplates:      {[maxPorts * maxSizes]genPacketTemplate{}, unsafe.Sizeof([maxPorts * maxSizes]genPacketTemplate{}), spec.Variables[genVarPacketTemplates].Size()},
		genVarPattern:              {[maxPattern]uint8{}, maxPattern, spec.Variables[genVarPattern].Size()},
	} {
		if n := binary.Size(c.value); n != int(c.size) || n != int(c.declared) {
			t.Errorf("%s: %d bytes written, %d in memory, %d in the kernel", name, n, c.size, c.declared)
		}
	}
}
