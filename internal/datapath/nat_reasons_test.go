package datapath

// natReasons say which test provokes the reasons of egress policies and NAT.
var natReasons = map[string]string{
	"no-gateway":      "TestNATNoGateway",
	"nat-exhausted":   "TestNATExhaustion",
	"nat-full":        "TestNATTableFull",
	"nat-limit":       "TestNATLimit",
	"no-nat-session":  "TestNATCases",
	"no-translation":  "TestNATRequired",
	"nat-fragment":    "TestNATFragments",
	"nat-unsupported": "TestNATCases",
	"nat-conflict":    "TestNATTwoForwardsToOneHost",
}
