package controller

import "strings"

// noteMost is how many bytes the API server takes of an event's note (k8s.io/kubernetes/pkg/apis/core/validation, NoteLengthLimit).
const noteMost = 1024

// cut ends a note that was longer.
const cut = " … cut here: the object's status has all of it"

// note is a text that the API server takes as an event's.
func note(text string) string {
	if len(text) <= noteMost {
		return text
	}
	return strings.ToValidUTF8(text[:noteMost-len(cut)], "") + cut
}
