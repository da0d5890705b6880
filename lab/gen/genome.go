package gen

import (
	"fmt"
	"slices"
)

// genomeSizes are the frames of the letters of an IMIX Genome from a on (RFC 6985 section 4).
func genomeSizes() []int { return []int{64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000, 16000} }

// Genome reads an IMIX Genome: sizes in their order by letters, as "aaaaaaabbbbg". Letter z, the MTU, depends on
// the network, so its size has to be written as the letter that it has.
func Genome(text string) (imix []Share, order []uint8, err error) {
	sizes := genomeSizes()
	for _, letter := range []byte(text) {
		at := int(letter) - 'a'
		if at < 0 || at >= len(sizes) {
			return nil, nil, fmt.Errorf("%q in the genome %q is not one of the letters a … %c", letter, text, 'a'+len(sizes)-1)
		}
		i := slices.IndexFunc(imix, func(s Share) bool { return s.Frame == sizes[at] })
		if i < 0 {
			i = len(imix)
			imix = append(imix, Share{Frame: sizes[at]})
		}
		imix[i].Weight++
		order = append(order, uint8(i))
	}
	return imix, order, nil
}
