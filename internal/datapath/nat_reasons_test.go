package datapath

// natReasons say which test provokes the reasons of egress policies and NAT.
var natReasons = map[string]string{
	"no-gateway":      "TestNATNoGateway",
	"nat-exhausted":   "TestNATIsTheReference",
	"nat-full":        "TestNATTableFull",
	"nat-limit":       "TestNATIsTheReference",
	"no-nat-session":  "TestNATIsTheReference",
	"no-translation":  "TestNATRequired",
	"nat-fragment":    "TestNATIsTheReference",
	"nat-unsupported": "TestNATCases",
	"nat-conflict":    "TestNATTwoForwardsToOneHost",
}
