// Command manifests renders deploy/stategraft.yaml and
// deploy/stategraft-self-signed.yaml from the chart. It is run in the
// repository's folder, and builds Helm where it is not cached.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/stategraft/stategraft/deploy/render"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := write(ctx, "deploy"); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// write renders into the folder deploy.
func write(ctx context.Context, deploy string) error {
	home, err := os.MkdirTemp("", "stategraft-helm-")
	if err != nil {
		return fmt.Errorf("making a folder for helm: %w", err)
	}
	defer os.RemoveAll(home)
	helm, err := render.New(ctx, os.Stderr, home, "")
	if err != nil {
		return err
	}
	rendered, err := helm.Manifests(ctx, deploy)
	if err != nil {
		return err
	}
	for name, text := range rendered {
		if err := os.WriteFile(filepath.Join(deploy, name), text, 0o644); err != nil {
			return fmt.Errorf("writing the manifest: %w", err)
		}
	}
	return nil
}
