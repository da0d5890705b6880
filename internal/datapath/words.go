package datapath

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// words are the names and texts of one list of bpf/core/reasons.h, by number.
type words []word

type word struct{ name, text string }

// vocabulary is what the programs can say, read from their object file.
type vocabulary struct{ reasons, slows, events, stages, counts, rates words }

// vocabularyOf reads the lists once; they are part of this binary.
var vocabularyOf = sync.OnceValues(func() (vocabulary, error) {
	spec, err := loadBpf()
	if err != nil {
		return vocabulary{}, err
	}
	read := func(variable string, n int) (words, error) {
		raw := make([]bpfWord, n)
		if err := spec.Variables[variable].Get(raw); err != nil {
			return nil, fmt.Errorf("read %s: %w", variable, err)
		}
		list := make(words, n)
		for i, w := range raw {
			list[i] = word{
				name: strings.ReplaceAll(strings.ToLower(cString(w.Name[:])), "_", "-"),
				text: cString(w.Text[:]),
			}
		}
		return list, nil
	}
	var v vocabulary
	if v.reasons, err = read(bpfVarReasonWords, int(bpfReasonREASON_MAX)); err != nil {
		return v, err
	}
	if v.slows, err = read(bpfVarSlowWords, int(bpfSlowSLOW_MAX)); err != nil {
		return v, err
	}
	if v.stages, err = read(bpfVarStageWords, int(bpfStageSTAGE_MAX)); err != nil {
		return v, err
	}
	if v.events, err = read(bpfVarEventWords, int(bpfEventEVENT_MAX)); err != nil {
		return v, err
	}
	if v.counts, err = read(bpfVarCountWords, int(bpfLimitedCountCOUNT_MAX)); err != nil {
		return v, err
	}
	v.rates, err = read(bpfVarRateWords, int(bpfLimitedRateRATE_MAX))
	return v, err
})

func cString[T ~int8 | ~uint8](s []T) string {
	b := make([]byte, 0, len(s))
	for _, c := range s {
		b = append(b, byte(c))
	}
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}
