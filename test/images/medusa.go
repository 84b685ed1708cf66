package images

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/images/archive"
)

// medusaPackages are Medusa and what it needs for gRPC, which is not among its
// dependencies.
var medusaPackages = []string{"cassandra-medusa==0.31.0", "grpcio==1.81.0", "grpcio-health-checking==1.81.0", "protobuf==6.33.6"}

// debianPython is the interpreter of the image and so of the virtual environment.
const debianPython = "/usr/bin/python3"

func medusaImage() archive.Image {
	return archive.Image{
		Name:       Medusa,
		User:       "999:999",
		Entrypoint: []string{"/home/cassandra/docker-entrypoint.sh"},
		WorkingDir: "/home/cassandra",
		Env: []string{"PATH=/home/cassandra/.local/bin:/home/cassandra/bin:/usr/local/bin:/usr/bin:/bin",
			"PYTHONPATH=/home/cassandra", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1"},
	}
}

func medusaRecipe() recipe {
	return recipe{
		image:    medusaImage(),
		inputs:   append(contents("files/medusa"), append([]string{debianRecipe, strings.Join(base, " "), "layout 2", anyUIDLayout}, medusaPackages...)...),
		build:    buildMedusa,
		owner:    own("home/cassandra"),
		variants: []variant{anyUID()},
	}
}

// venv makes a virtual environment of Debian's Python with pip in it, and
// answers its interpreter.
func venv(ctx context.Context, work string) (string, error) {
	if _, err := run(ctx, work, nil, debianPython, "-c", "import ensurepip, venv"); err != nil {
		if err := cluster.AptInstall(ctx, "python3-venv"); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(work, "tools")
	_, err := run(ctx, work, nil, debianPython, "-m", "venv", dir)
	return filepath.Join(dir, "bin", "python"), err
}

func buildMedusa(ctx context.Context, root, work string) error {
	if err := debianRoot(ctx, root, work, "python3", "libstdc++6"); err != nil {
		return err
	}
	if err := addUser(root, "/home/cassandra"); err != nil {
		return err
	}
	home := filepath.Join(root, "home/cassandra")
	env := filepath.Join(home, ".venv")
	tools, err := venv(ctx, work)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fmt.Errorf("making /home/cassandra: %w", err)
	}
	if _, err := run(ctx, work, nil, debianPython, "-m", "venv", "--without-pip", env); err != nil {
		return err
	}
	if _, err := run(ctx, work, nil, tools, append([]string{"-m", "pip", "--python", filepath.Join(env, "bin", "python"),
		"install", "-q", "--only-binary=:all:"}, medusaPackages...)...); err != nil {
		return err
	}
	if err := relocate(env); err != nil {
		return err
	}
	// Upstream has its code in the home folder, where PYTHONPATH finds it.
	code, err := filepath.Glob(filepath.Join(env, "lib/python3*/site-packages/medusa"))
	if err != nil || len(code) != 1 {
		return fmt.Errorf("package cassandra-medusa has no folder medusa")
	}
	if err := os.Rename(code[0], filepath.Join(home, "medusa")); err != nil {
		return fmt.Errorf("moving Medusa's code: %w", err)
	}
	if err := install(home, "docker-entrypoint.sh", "files/medusa/docker-entrypoint.sh", 0o755); err != nil {
		return err
	}
	if err := install(home, ".local/bin/poetry", "files/medusa/poetry", 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, "etc/medusa"), 0o755); err != nil {
		return fmt.Errorf("making /etc/medusa: %w", err)
	}
	return os.Chmod(home, 0o700)
}

// relocate makes the scripts of a virtual environment name the path that it will
// have in the image.
func relocate(env string) error {
	scripts, err := filepath.Glob(filepath.Join(env, "bin", "*"))
	if err != nil {
		return err
	}
	for _, path := range append(scripts, filepath.Join(env, "pyvenv.cfg")) {
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(env), []byte("/home/cassandra/.venv")), info.Mode()); err != nil {
			return err
		}
	}
	return nil
}
