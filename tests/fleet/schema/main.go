// Checks boards against Grafana's own schema: each field is known, has its type, and is there if it has to be. That includes
// the options of each kind of panel, and the queries.
//
//	go run . BOARD…
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	wrong := 0
	for _, name := range os.Args[1:] {
		if err := check(name); err != nil {
			fmt.Printf("WRONG %s: %v\n", name, err)
			wrong++
		} else {
			fmt.Printf("ok    %s\n", name)
		}
	}
	fmt.Printf("%d wrong\n", wrong)
	if wrong > 0 || len(os.Args) < 2 {
		os.Exit(1)
	}
}

func check(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var board dashboard.Dashboard
	// Without an error it returns an empty one.
	if err := board.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
		return err
	}
	return board.Validate()
}
