package controller

import "strings"

// noteMost is how many bytes the API server takes of an event's note (k8s.io/kubernetes/pkg/apis/core/validation, NoteLengthLimit).
const noteMost = 1024

// cut ends a note about an object with a status.
const cut = " … cut here: the object's status has all of it"

// Note is a text that the API server takes as an event's. One that was longer has the end.
func Note(text, end string) string {
	if len(text) <= noteMost {
		return text
	}
	return strings.ToValidUTF8(text[:noteMost-len(end)], "") + end
}
