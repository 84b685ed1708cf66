package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/images/archive"
)

const (
	module    = "github.com/stategraft/stategraft"
	s3Module  = "github.com/versity/versitygw"
	s3Version = "v1.8.0"
)

// agentRecipe is the agent and its part for Anna on a busybox, as deploy/images makes it.
func agentRecipe(ctx context.Context) (recipe, error) {
	agent, agentSum, err := program(ctx, "./cmd/stategraft-agent")
	if err != nil {
		return recipe{}, err
	}
	anna, annaSum, err := program(ctx, "./cmd/stategraft-anna")
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		image: archive.Image{Name: Agent, User: "65532:65532", Entrypoint: []string{"/usr/local/bin/stategraft-agent"},
			Env: []string{"PATH=/usr/local/bin:/bin"}},
		inputs: []string{"layout 2", agentSum, annaSum},
		build: func(ctx context.Context, root, _ string) error {
			if err := cluster.BusyboxRoot(ctx, root); err != nil {
				return err
			}
			if err := put(root, "usr/local/bin/stategraft-anna", anna); err != nil {
				return err
			}
			return put(root, "usr/local/bin/stategraft-agent", agent)
		},
		owner: own(),
	}, nil
}

// serverRecipe is the webhook and the controllers, and nothing else.
func serverRecipe(ctx context.Context) (recipe, error) {
	program, sum, err := program(ctx, "./cmd/stategraft")
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		image:  archive.Image{Name: Server, User: "65532:65532", Entrypoint: []string{"/stategraft"}},
		inputs: []string{"layout 1", sum},
		build:  func(_ context.Context, root, _ string) error { return put(root, "stategraft", program) },
		owner:  own(),
	}, nil
}

// program builds a program of this repository, of its package, and answers it with its
// digest: its content decides whether its image is another one.
func program(ctx context.Context, pkg string) (text []byte, sum string, err error) {
	dir, err := cacheDir()
	if err != nil {
		return nil, "", err
	}
	folder, err := run(ctx, "", nil, "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return nil, "", fmt.Errorf("finding the repository: %w", err)
	}
	name := filepath.Base(pkg)
	path := filepath.Join(dir, name)
	if _, err := run(ctx, strings.TrimSpace(folder), []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-tags", "grpcnotrace", "-buildvcs=false", "-ldflags", "-s -w",
		"-o", path, pkg); err != nil {
		return nil, "", err
	}
	if text, err = os.ReadFile(path); err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", name, err)
	}
	digest := sha256.Sum256(text)
	return text, hex.EncodeToString(digest[:]), nil
}

// s3Recipe is an S3 server that keeps objects as files in /data, one folder for
// each bucket.
func s3Recipe() recipe {
	return recipe{
		image: archive.Image{Name: S3, Entrypoint: []string{"/usr/local/bin/versitygw"},
			Cmd: []string{"--port", ":9000", "posix", "/data"}, Env: []string{"PATH=/usr/local/bin:/bin"}},
		inputs: []string{"layout 1", s3Module, s3Version},
		build: func(ctx context.Context, root, work string) error {
			if err := cluster.BusyboxRoot(ctx, root); err != nil {
				return err
			}
			mod := fmt.Sprintf("module rig\n\ngo 1.26.0\n\nrequire %s %s\n", s3Module, s3Version)
			if err := os.WriteFile(filepath.Join(work, "go.mod"), []byte(mod), 0o644); err != nil {
				return fmt.Errorf("writing go.mod: %w", err)
			}
			program := filepath.Join(work, "versitygw")
			if _, err := run(ctx, work, []string{"CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off"}, "go", "build", "-ldflags", "-s -w",
				"-o", program, s3Module+"/cmd/versitygw"); err != nil {
				return err
			}
			text, err := os.ReadFile(program)
			if err != nil {
				return fmt.Errorf("reading the S3 server: %w", err)
			}
			if err := os.MkdirAll(filepath.Join(root, "data"), 0o755); err != nil {
				return fmt.Errorf("making /data: %w", err)
			}
			return put(root, "usr/local/bin/versitygw", text)
		},
		owner: own(),
	}
}

// put writes a program into the root file system.
func put(root, name string, program []byte) error {
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("installing /%s: %w", name, err)
	}
	if err := os.WriteFile(path, program, 0o755); err != nil {
		return fmt.Errorf("installing /%s: %w", name, err)
	}
	return nil
}
