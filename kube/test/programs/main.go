// Command programs builds those of Kubernetes' programs that it is given names of, where the machine has none, so that no test waits for
// them. Tests need no call of it: each builds what it runs.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/selvage/selvage/kube/test/apiserver"
)

func main() {
	for _, name := range os.Args[1:] {
		file, err := apiserver.Program(context.Background(), name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "programs:", err)
			os.Exit(1)
		}
		fmt.Println(file)
	}
}
