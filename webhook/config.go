package webhook

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// ConfigVersion and ConfigKind head the configuration file.
const (
	ConfigVersion = "config." + api.Group + "/v1alpha1"
	ConfigKind    = "WebhookConfiguration"
)

// Config is the configuration file of the webhook and the command line.
type Config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// Annotations are the defaults of annotations, by their names without the
	// prefix stategraft.io/. A namespace's and a pod's own win.
	Annotations map[string]string `json:"annotations,omitempty"`

	Medusa struct {
		// AnyUIDImage is a Medusa image that runs as any user. It is used for
		// databases that do not run as 999, which are skipped without it.
		AnyUIDImage string `json:"anyUIDImage,omitempty"`
	} `json:"medusa,omitempty"`

	// Resources of the injected containers.
	Resources struct {
		Agent    *corev1.ResourceRequirements `json:"agent,omitempty"`
		Snapshot *corev1.ResourceRequirements `json:"snapshot,omitempty"`
		Medusa   *corev1.ResourceRequirements `json:"medusa,omitempty"`
		Anna     *corev1.ResourceRequirements `json:"anna,omitempty"`
	} `json:"resources,omitempty"`

	// NativeSidecars is auto (by the version of the API server), always or never.
	NativeSidecars string `json:"nativeSidecars,omitempty"`

	defaults map[string]string // Annotations by their full names
	base     patches.Settings  // before any annotation
}

// DefaultConfig is the configuration without a file.
func DefaultConfig() *Config {
	return &Config{APIVersion: ConfigVersion, Kind: ConfigKind, NativeSidecars: "auto", base: patches.Default()}
}

// ParseConfig reads a configuration file. Unknown fields and values that an
// annotation could not have are errors that name them.
func ParseConfig(text []byte) (*Config, error) {
	config := DefaultConfig()
	config.APIVersion, config.Kind = "", ""
	if err := oneDocument(text); err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(text, config); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if config.APIVersion != ConfigVersion || config.Kind != ConfigKind {
		return nil, fmt.Errorf("the configuration is apiVersion %q, kind %q; it has to be %s, %s",
			workload.Short(config.APIVersion), workload.Short(config.Kind), ConfigVersion, ConfigKind)
	}
	switch config.NativeSidecars {
	case "":
		config.NativeSidecars = "auto"
	case "auto", "always", "never":
	default:
		return nil, fmt.Errorf("nativeSidecars is %q; it takes auto, always or never", workload.Short(config.NativeSidecars))
	}
	if config.Medusa.AnyUIDImage != "" {
		if _, err := image(config.Medusa.AnyUIDImage); err != nil {
			return nil, fmt.Errorf("medusa.anyUIDImage: %w", err)
		}
	}
	if err := config.setBase(); err != nil {
		return nil, err
	}
	if err := config.setDefaults(); err != nil {
		return nil, err
	}
	return config, nil
}

// oneDocument refuses a file with nothing in it, as a writer that was cut short
// leaves one, and a second document, which would not be read.
func oneDocument(text []byte) error {
	documents := 0
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the configuration: %w", err)
		}
		var content any
		if yaml.Unmarshal(document, &content) != nil || content != nil {
			documents++
		}
	}
	if documents != 1 {
		return fmt.Errorf("the configuration has %d documents; it has to be one", documents)
	}
	return nil
}

// perPod are the annotations that make no sense as a default of all pods.
var perPod = []string{api.AnnotationRestore, api.AnnotationRestoreSource, api.AnnotationContainer, api.AnnotationDataVolume, api.AnnotationAdoptRenew}

// perNamespace are those that nobody reads from the configuration: the controllers that
// follow them go by what stands on the objects. Nothing that is added to a pod depends on
// them.
var perNamespace = []string{api.AnnotationBackupSchedule, api.AnnotationRetain, api.AnnotationRPO, api.AnnotationOnConfigChange,
	api.AnnotationAdopt, api.AnnotationAdoptRenew}

// noDefault are all that cannot be a default for that reason: of expose the pod is told,
// too.
var noDefault = append([]string{api.AnnotationExpose}, perNamespace...)

func (c *Config) setDefaults() error {
	c.defaults = map[string]string{}
	for name, value := range c.Annotations {
		key := api.Group + "/" + name
		if !slices.Contains(api.Annotations, key) {
			if strings.HasPrefix(name, api.Group+"/") {
				return fmt.Errorf("annotations: %q is written without %s/ here", workload.Short(name), api.Group)
			}
			return fmt.Errorf("annotations: %q is not known%s", workload.Short(name), strings.ReplaceAll(suggestion(key, api.Annotations), api.Group+"/", ""))
		}
		if slices.Contains(perPod, key) {
			return fmt.Errorf("annotations: %s cannot be a default; it belongs on a pod", name)
		}
		if slices.Contains(noDefault, key) {
			return fmt.Errorf("annotations: %s cannot be a default; it belongs on a namespace or a pod", name)
		}
		c.defaults[key] = value
	}
	check := resolve(&workload.Pod{}, Namespace{}, c, api.Order{})
	if len(check.problems) > 0 {
		return errors.New(check.problems[0].text)
	}
	return nil
}

// setBase computes the settings before any annotation.
func (c *Config) setBase() error {
	s := patches.Default()
	s.NativeSidecars = c.NativeSidecars != "never"
	for _, r := range []struct {
		name string
		from *corev1.ResourceRequirements
		to   *patches.Resources
	}{
		{"agent", c.Resources.Agent, &s.Resources.Agent}, {"snapshot", c.Resources.Snapshot, &s.Resources.Snapshot},
		{"medusa", c.Resources.Medusa, &s.Resources.Medusa}, {"anna", c.Resources.Anna, &s.Resources.Anna},
	} {
		if r.from == nil {
			continue
		}
		checked, err := checkResources(*r.from)
		if err != nil {
			return fmt.Errorf("resources.%s: %w", r.name, err)
		}
		*r.to = checked.Over(*r.to)
	}
	c.base = s
	return nil
}

// ConfigFile is a configuration that follows its file and keeps the last good
// version when the file is broken.
type ConfigFile struct {
	path    string
	log     logr.Logger
	current atomic.Pointer[Config]
	text    []byte
	broken  string
}

// OpenConfig reads the file; an empty path stands for the defaults. A file that
// is wrong at the start is an error.
func OpenConfig(path string, log logr.Logger) (*ConfigFile, error) {
	f := &ConfigFile{path: path, log: log}
	if path == "" {
		f.current.Store(DefaultConfig())
		return f, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config, err := ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.text = text
	f.current.Store(config)
	return f, nil
}

// Config gives the last good version.
func (f *ConfigFile) Config() *Config { return f.current.Load() }

// pollInterval is how soon a changed file is seen. The kubelet itself takes up
// to a minute to write a changed ConfigMap, by swapping a link, which some file
// systems do not report: reading a small file is the simpler way.
const pollInterval = 2 * time.Second

// Start follows the file until the context ends. It implements
// manager.Runnable of controller-runtime.
func (f *ConfigFile) Start(ctx context.Context) error {
	if f.path == "" {
		return nil
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.reload()
		}
	}
}

// NeedLeaderElection is false: every replica answers admission.
func (f *ConfigFile) NeedLeaderElection() bool { return false }

func (f *ConfigFile) reload() {
	text, err := os.ReadFile(f.path)
	if err != nil {
		f.text = nil // it is good news when it comes back, even unchanged
	} else {
		if bytes.Equal(text, f.text) {
			return
		}
		f.text = text
		var config *Config
		if config, err = ParseConfig(text); err == nil {
			f.current.Store(config)
			f.broken = ""
			countReload(true)
			f.log.Info("configuration reloaded", "file", f.path)
			return
		}
	}
	if err.Error() != f.broken { // said once, not every interval
		f.broken = err.Error()
		countReload(false)
		f.log.Error(err, "configuration not reloaded, the last good one stays", "file", f.path)
	}
}
