package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// moduleFile answers the text of a go.mod in which a program can be built. dir
// is an existing folder to run the go command in.
type moduleFile func(ctx context.Context, dir string) (string, error)

// requireOnly is the module file of a program whose module can be required as
// it is: the go command completes the list itself (-mod=mod).
func requireOnly(path, version string) moduleFile {
	return func(context.Context, string) (string, error) {
		return fmt.Sprintf("module rig\n\ngo 1.26.0\n\nrequire %s %s\n", path, version), nil
	}
}

// kubernetesLdflags stamp the version. Without it the API server calls itself
// v0.0.0, and clients that compare versions misbehave. Only the linker sees
// these, so they cost no recompilation.
var kubernetesLdflags = func() string {
	const pkg = "k8s.io/component-base/version."
	major, rest, _ := strings.Cut(KubernetesVersion, ".")
	minor, _, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("-X %sgitVersion=v%s -X %sgitMajor=%s -X %sgitMinor=%s",
		pkg, KubernetesVersion, pkg, major, pkg, minor)
}()

// kubernetesModule downloads k8s.io/kubernetes and derives a module file from
// its own.
func kubernetesModule(ctx context.Context, dir string) (string, error) {
	out, err := goCommand(ctx, dir, "mod", "download", "-json", "k8s.io/kubernetes@v"+KubernetesVersion)
	if err != nil {
		return "", fmt.Errorf("downloading the source of Kubernetes: %w", err)
	}
	var downloaded struct{ GoMod string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return "", fmt.Errorf("reading what go mod download answered: %w", err)
	}
	// The go command is the parser, so this package needs none.
	out, err = goCommand(ctx, dir, "mod", "edit", "-json", downloaded.GoMod)
	if err != nil {
		return "", fmt.Errorf("reading the go.mod of Kubernetes: %w", err)
	}
	return deriveKubernetesModule(out, KubernetesVersion)
}

// goMod is the part of `go mod edit -json` that is used here.
type goMod struct {
	Go      string
	GoDebug []struct{ Key, Value string }
	Require []struct{ Path, Version string }
	Replace []struct {
		Old struct{ Path string }
		New struct{ Path, Version string }
	}
}

// deriveKubernetesModule makes, from the JSON form of k8s.io/kubernetes's
// go.mod, the go.mod of a module that can build its programs as dependencies.
//
// k8s.io/kubernetes cannot simply be required: it takes its libraries from
// ./staging, with replace lines that only count in a main module. The same
// libraries are published as modules of their own, v0.Y.Z for Kubernetes
// v1.Y.Z, so these stand in for the folders. All other versions are copied,
// so that the programs are made of what the release was tested with.
func deriveKubernetesModule(upstream []byte, version string) (string, error) {
	var mod goMod
	if err := json.Unmarshal(upstream, &mod); err != nil {
		return "", fmt.Errorf("parsing the go.mod of Kubernetes: %w", err)
	}
	minor, ok := strings.CutPrefix(version, "1.")
	if !ok {
		return "", fmt.Errorf("version %q of Kubernetes is not of the form 1.Y.Z", version)
	}
	libraryVersion := "v0." + minor

	var b strings.Builder
	fmt.Fprintf(&b, "module rig\n\ngo %s\n", mod.Go)
	for _, d := range mod.GoDebug {
		fmt.Fprintf(&b, "godebug %s=%s\n", d.Key, d.Value)
	}
	fmt.Fprintf(&b, "\nrequire k8s.io/kubernetes v%s\n", version)

	staged := map[string]bool{}
	b.WriteString("\nreplace (\n")
	for _, r := range mod.Replace {
		switch {
		case strings.HasPrefix(r.New.Path, "./staging/"):
			staged[r.Old.Path] = true
			fmt.Fprintf(&b, "\t%s => %s %s\n", r.Old.Path, r.Old.Path, libraryVersion)
		case strings.HasPrefix(r.New.Path, "."):
			return "", fmt.Errorf("the go.mod of Kubernetes replaces %s by the folder %s, which no module publishes", r.Old.Path, r.New.Path)
		default:
			fmt.Fprintf(&b, "\t%s => %s %s\n", r.Old.Path, r.New.Path, r.New.Version)
		}
	}
	b.WriteString(")\n\nrequire (\n")
	for _, r := range mod.Require {
		if staged[r.Path] {
			r.Version = libraryVersion // upstream it is v0.0.0, a placeholder
		}
		fmt.Fprintf(&b, "\t%s %s\n", r.Path, r.Version)
	}
	b.WriteString(")\n")
	return b.String(), nil
}
