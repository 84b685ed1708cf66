//go:build unix && !linux

package cluster

import (
	"context"
	"errors"
)

const bridge = "stategraft0"

// marker: see node_linux.go.
type marker struct{}

func claimMachine(context.Context, string) (*marker, error) {
	return nil, errors.New("a node needs Linux")
}

func cleanNode(context.Context, string) error        { return nil }
func (*marker) prepareNetwork(context.Context) error { return nil }
func (*marker) clean(context.Context) error          { return nil }
func (*marker) Close() error                         { return nil }
