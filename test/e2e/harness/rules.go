package harness

import (
	"fmt"
	"os"
	"strings"
)

// ManyRules are those of a firewall with much to do at each reload.
const ManyRules = 100_000

// WriteRules makes a file for include: of a firewall, with so many rules that let pass what tests send.
func WriteRules(path string, count int) error {
	var b strings.Builder
	b.WriteString(`{"sections": [{"name": "many", "priority": 10, "rules": [`)
	for i := range count {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"name": "r%d", "action": "drop", "from": ["10.%d.%d.%d"], "services": ["tcp/%d"]}`, i, 100+i>>16, i>>8&255, i&255, 1+i%60000)
	}
	b.WriteString("]}]}\n")
	return os.WriteFile(path, []byte(b.String()), 0o600)
}
