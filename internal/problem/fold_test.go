package problem

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func ports(n int) (list []Problem) {
	for i := range n {
		list = append(list, Warning("port %s has MTU %d, the tunnel carries less", fmt.Sprintf("p%d", i), 1500+i))
	}
	return list
}

// Many problems that are alike are one, which names some and counts all; others stay, and so does the order.
func TestFold(t *testing.T) {
	missing := []Problem{Error("port %s does not exist", "p0"), Error("remote %s is dead", netip.MustParseAddr("192.0.2.1")), Error("%s", "a"), Error("%s", "b")}
	list := Fold(slices.Concat(missing, ports(5000), []Problem{Note("end")}))
	want := "p0, p1, p2 and 4,997 more: port p0 has MTU 1500, the tunnel carries less"
	if len(list) != 6 || list[4].Text != want || list[4].Count != 5000 || !slices.Equal(list[:4], missing) || list[5].Text != "end" {
		t.Errorf("%+v", list)
	}
	if n := Count(list, SeverityWarning); n != 5000 || Sum(list) != Broken {
		t.Errorf("%d warnings, %s", n, Sum(list))
	}
	if text, err := json.Marshal(list[4]); err != nil || string(text) != `{"severity":"warning","text":"`+want+`","count":5000}` {
		t.Errorf("%s (%v)", text, err)
	}
	if few := ports(mostAlike); !slices.Equal(Fold(few), few) {
		t.Errorf("%+v", Fold(few))
	}
	if list := Fold(nil); list == nil || len(list) != 0 {
		t.Errorf("of none: %#v", list)
	}
}

// What is not alike is bounded too, in number and length.
func TestFoldIsBounded(t *testing.T) {
	var list []Problem
	for i := range 300 {
		list = append(list, Note("%s", fmt.Sprint("note ", i)), Error("%s", fmt.Sprint("error ", i, strings.Repeat("ä", mostText))))
	}
	folded := Fold(list)
	if len(folded) > mostListed || Count(folded, SeverityError) != 300 || Count(folded, SeverityNote) != 300 {
		t.Errorf("%d problems, %d errors, %d notes", len(folded), Count(folded, SeverityError), Count(folded, SeverityNote))
	}
	if last := folded[len(folded)-1]; last.Severity != SeverityNote || last.Text != "300 more problems, which find no room here: mend those above first" {
		t.Errorf("the last is %+v", last)
	}
	if n := len(folded[0].Text); n > mostText+50 || !strings.HasPrefix(folded[0].Text, "error 0ä") {
		t.Errorf("a text of %d bytes", n)
	}
}
