package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestTag keeps 15 MB of program and 10 MB of memory away. gRPC brings html/template
// unless it is built with grpcnotrace, and that has the linker keep every method of
// every type.
func TestTag(t *testing.T) {
	t.Parallel()
	const tag = "grpcnotrace"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tag, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if imports := strings.Fields(string(out)); !slices.Contains(imports, "google.golang.org/grpc") || slices.Contains(imports, "html/template") || slices.Contains(imports, "golang.org/x/net/trace") {
		t.Errorf("the tag %s does not do it any more", tag)
	}
	for _, path := range []string{"../../Makefile", "../../deploy/images/webhook.Containerfile", "../../test/images/small.go"} {
		if content, err := os.ReadFile(path); err != nil || !strings.Contains(string(content), tag) {
			t.Errorf("%s does not build with the tag %s (%v)", path, tag, err)
		}
	}
}
