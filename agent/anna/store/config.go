package store

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"filippo.io/age"
	"github.com/stategraft/stategraft/agent/ini"
)

// The kinds of storage.
const (
	S3    = "s3"
	GCS   = "google_storage"
	Azure = "azure_blobs"
	Local = "local"
)

// Config is where backups are. Of medusa.ini it has the keys that mean something here.
type Config struct {
	Kind     string // S3, GCS, Azure or Local
	Bucket   string
	BasePath string // of Local
	KeyFile  string // credentials; empty: those of the environment, such as a workload identity
	Profile  string // of an AWS KeyFile; empty: default
	Prefix   string // of all objects, without slashes; may be empty
	Region   string

	// Host and Port are the service's, where it is not the provider's own; Port may be 0. A
	// Host of S3 may have a path, and the port is in it then.
	Host         string
	Port         int
	Plain        bool // HTTP, not HTTPS
	NoVerify     bool // the service's certificate is not verified
	PathStyle    bool // of S3: the bucket is in the path, not in the host name
	KMS          string
	StorageClass string

	Recipients []string // age1…: packs are encrypted to them; none: they are not encrypted
}

// Defaults stand in for what a medusa.ini leaves open.
type Defaults struct {
	Prefix      string // of objects, where [storage] prefix is empty
	Credentials string // path of the file, where key_file is empty; used if it is there
}

// regions are of the storage providers that have theirs in their name, as Medusa takes
// them of libcloud.
var regions = map[string]string{
	"s3_us_east": "us-east-1", "s3_us_east1": "us-east-1", "s3_us_east2": "us-east-2", "s3_us_west": "us-west-1", "s3_us_west2": "us-west-2",
	"s3_us_west_oregon": "us-west-2", "s3_us_gov_east": "us-gov-east-1", "s3_us_gov_west": "us-gov-west-1", "s3_eu_west": "eu-west-1",
	"s3_eu_west2": "eu-west-2", "s3_eu_central": "eu-central-1", "s3_eu_north1": "eu-north-1", "s3_ap_south": "ap-south-1",
	"s3_ap_southeast": "ap-southeast-1", "s3_ap_southeast2": "ap-southeast-2", "s3_ap_northeast": "ap-northeast-1",
	"s3_ap_northeast1": "ap-northeast-1", "s3_ap_northeast2": "ap-northeast-2", "s3_sa_east": "sa-east-1", "s3_sa_east2": "sa-east-2",
	"s3_ca_central": "ca-central-1", "s3_cn_north": "cn-north-1", "s3_cn_northwest": "cn-northwest-1", "s3_af_south": "af-south-1",
	"s3_me_south": "me-south-1",
}

// FromINI reads [storage], with the keys that Medusa has, and [stategraft] of a
// medusa.ini. It does no input or output but looking whether the credentials are there.
func FromINI(file *ini.File, d Defaults) (Config, error) {
	get := func(key string) string { value, _ := file.Get("storage", key); return strings.TrimSpace(value) }
	if !slices.Contains(file.Sections(), "storage") {
		return Config{}, fmt.Errorf("medusa.ini: section [storage] is missing; it needs at least storage_provider and bucket_name")
	}
	c := Config{Bucket: get("bucket_name"), BasePath: get("base_path"), KeyFile: get("key_file"), Profile: get("api_profile"), Prefix: get("prefix"),
		Host: get("host"), KMS: get("kms_id"), StorageClass: get("storage_class"), Region: get("region")}
	for _, key := range []string{"storage_provider", "bucket_name"} {
		if get(key) == "" {
			return c, fmt.Errorf("medusa.ini: [storage] %s is missing", key)
		}
	}
	if err := c.kind(strings.ToLower(get("storage_provider"))); err != nil {
		return c, err
	}
	if c.Prefix == "" {
		c.Prefix = d.Prefix
	}
	for key, value := range map[string]string{"bucket_name": c.Bucket, "prefix": c.Prefix} {
		if strings.Contains(value, "/") {
			return c, fmt.Errorf("medusa.ini: [storage] %s = %s must not contain a slash", key, value)
		}
	}
	if c.KeyFile == "" && d.Credentials != "" && c.Kind != Local {
		if _, err := os.Stat(d.Credentials); err == nil {
			c.KeyFile = d.Credentials
		}
	}
	if get("sse_c_key") != "" {
		return c, fmt.Errorf("medusa.ini: [storage] sse_c_key is not supported for Anna: leave it out, and encrypt with [stategraft] age_recipient or kms_id instead")
	}
	if c.StorageClass != "" && c.Kind != S3 {
		return c, fmt.Errorf("medusa.ini: [storage] storage_class is only supported for S3: leave it out, and give the bucket that class")
	}
	if err := c.connection(get); err != nil {
		return c, err
	}
	recipients, _ := file.Get("stategraft", "age_recipient")
	for _, r := range strings.FieldsFunc(recipients, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		if strings.HasPrefix(strings.ToUpper(r), "AGE-SECRET-KEY") {
			return c, fmt.Errorf("medusa.ini: [stategraft] age_recipient is a private key: put the public one there (age1…, as age-keygen -y prints it), and keep the private one out of the cluster")
		}
		if _, err := age.ParseX25519Recipient(r); err != nil {
			return c, fmt.Errorf("medusa.ini: [stategraft] age_recipient: %q is no public key of age (age1…, as age-keygen -y prints it)", r)
		}
		c.Recipients = append(c.Recipients, r)
	}
	return c, nil
}

// kind understands storage_provider.
func (c *Config) kind(provider string) error {
	switch {
	case provider == Local:
		c.Kind = Local
		if c.BasePath == "" {
			return fmt.Errorf("medusa.ini: [storage] base_path is missing; storage_provider local needs it")
		}
		return nil
	case provider == GCS || provider == Azure:
		c.Kind = provider
		return nil
	case provider == "s3_compatible" || provider == "ibm_storage" || provider == "minio" || provider == "s3_rgw":
		if c.Host == "" {
			return fmt.Errorf("medusa.ini: [storage] host is missing; storage_provider %s needs it", provider)
		}
	case !strings.HasPrefix(provider, "s3"):
		return fmt.Errorf("medusa.ini: [storage] storage_provider = %s is not known; there are s3, s3_compatible, google_storage, azure_blobs and local", provider)
	}
	c.Kind = S3
	if c.Region == "" || c.Region == "default" {
		c.Region = regions[provider]
		switch {
		case c.Region != "":
		case provider != "s3" && c.Host == "":
			return fmt.Errorf("medusa.ini: [storage] storage_provider = %s names no region that is known: name it in region, or write s3 for us-east-1", provider)
		default:
			c.Region = "us-east-1"
		}
	}
	return nil
}

// connection understands how the service is reached.
func (c *Config) connection(get func(string) string) error {
	if text := get("port"); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return fmt.Errorf("medusa.ini: [storage] port = %s is no port", text)
		}
		c.Port = int(port)
	}
	if err := c.host(); err != nil {
		return err
	}
	if c.Host == "" && (c.Kind == S3 || c.Kind == GCS) {
		if c.Port != 0 && c.Port != 443 { // that is the provider's own
			return fmt.Errorf("medusa.ini: [storage] port = %d is without a host: name the service's host, or leave port out", c.Port)
		}
		c.Port = 0
	}
	secure, err := boolean(get, "secure", true)
	if err != nil {
		return err
	}
	// Medusa's own default is not to verify. Here a certificate is verified unless
	// the file says otherwise: SSL_CERT_FILE names other authorities.
	verify, err := boolean(get, "ssl_verify", true)
	if err != nil {
		return err
	}
	c.Plain, c.NoVerify = !secure, !verify && c.Host != ""
	switch style := strings.ToLower(get("s3_addressing_style")); style {
	case "path":
		c.PathStyle = true
	case "virtual":
	case "", "auto":
		c.PathStyle = c.Host != ""
	default:
		return fmt.Errorf("medusa.ini: [storage] s3_addressing_style = %s is none of auto, path, virtual", style)
	}
	return nil
}

// host understands the service's host. A port may stand behind it in place of in port, and
// behind that, for S3, the path below which some services have it.
func (c *Config) host() error {
	if c.Kind == Local {
		return nil
	}
	c.Host = strings.TrimSuffix(c.Host, "/")
	name, _, below := strings.Cut(c.Host, "/")
	if strings.Contains(c.Host, "://") || strings.ContainsAny(c.Host, "@?# \t\n") || below && (c.Kind != S3 || c.Port != 0) {
		return fmt.Errorf("medusa.ini: [storage] host = %s is no host's name: leave out https://, and a path", c.Host)
	}
	if !strings.Contains(name, ":") || net.ParseIP(strings.Trim(name, "[]")) != nil {
		return nil
	}
	host, text, err := net.SplitHostPort(name)
	port, wrong := strconv.ParseUint(text, 10, 16)
	if err != nil || host == "" || wrong != nil || port == 0 || c.Port != 0 {
		return fmt.Errorf("medusa.ini: [storage] host = %s is no host's name: put its port into port, and nowhere else", c.Host)
	}
	if !below {
		c.Host, c.Port = host, int(port)
	}
	return nil
}

// boolean reads what Medusa takes for one.
func boolean(get func(string) string, key string, without bool) (bool, error) {
	switch text := get(key); strings.ToLower(text) {
	case "":
		return without, nil
	case "1", "true", "yes", "on":
		return true, nil
	case "0", "false", "no", "off":
		return false, nil
	default:
		return without, fmt.Errorf("medusa.ini: [storage] %s = %s is neither True nor False", key, text)
	}
}
