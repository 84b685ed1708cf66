package setup

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stategraft/stategraft/agent/anna/membership"
	"github.com/stategraft/stategraft/agent/files"
)

// The places that the webhook mounts (patches/kvs.go).
const (
	DirConfig = "/etc/stategraft/config"
	DirInfo   = "/etc/stategraft/podinfo"
)

// FromEnvironment is the Setup that the environment of the container says.
func FromEnvironment(getenv func(string) string, log *slog.Logger) (*Setup, error) {
	s := &Setup{
		Pod: Pod{
			Kind: getenv("STATEGRAFT_KIND"), Role: getenv("STATEGRAFT_ROLE"),
			Name: getenv("POD_NAME"), Namespace: getenv("POD_NAMESPACE"),
			Subdomain: getenv("STATEGRAFT_SUBDOMAIN"), Address: getenv("POD_IP"),
			HostNetwork: getenv("POD_IP") != "" && getenv("POD_IP") == getenv("HOST_IP"),
			Exposed:     getenv("STATEGRAFT_EXPOSE") == "true",
			DataDir:     getenv("STATEGRAFT_DATA_DIRECTORY"),
		},
		Config: DirConfig, Info: DirInfo, Resolv: "/etc/resolv.conf",
		Resolver: net.DefaultResolver, Log: log, Times: DefaultTimes,
		Members: membership.ZeroMQ{}.Members, Listens: membership.Listens,
	}
	var err error
	if s.Owner, err = files.ParseOwner(getenv("STATEGRAFT_OWNER")); err != nil {
		return nil, fmt.Errorf("read STATEGRAFT_OWNER: %w", err)
	}
	if text := getenv("STATEGRAFT_MEMORY_LIMIT"); text != "" {
		if s.Pod.MemoryLimit, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("read STATEGRAFT_MEMORY_LIMIT: %w", err)
		}
	}
	if s.Renders, err = parseRenders(getenv("STATEGRAFT_RENDER")); err != nil {
		return nil, fmt.Errorf("read STATEGRAFT_RENDER: %w", err)
	}
	return s, nil
}

func parseRenders(text string) ([]Render, error) {
	if text == "" {
		return nil, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	var renders []Render
	if err := decoder.Decode(&renders); err != nil {
		return nil, err
	}
	for _, r := range renders {
		switch {
		case r.Kind != KindAnna && r.Kind != KindCache && r.Kind != KindCloudburst:
			return nil, fmt.Errorf("container %s: kind %q is not known", r.Container, r.Kind)
		case !filepath.IsAbs(r.Dir):
			return nil, fmt.Errorf("container %s: directory %q is no whole path", r.Container, r.Dir)
		}
	}
	return renders, nil
}
