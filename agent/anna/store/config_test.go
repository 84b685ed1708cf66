package store

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/stategraft/stategraft/agent/ini"
)

func TestFromINI(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	one := key.Recipient().String()
	credentials := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(credentials, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		text  string
		want  Config
		wrong string
	}{
		"s3":     {text: "[storage]\nstorage_provider=s3\nbucket_name=b\n", want: Config{Kind: S3, Region: "us-east-1"}},
		"region": {text: "[storage]\nstorage_provider=s3_us_west_oregon\nregion=default\nbucket_name=b\nkms_id=k\nstorage_class=STANDARD_IA\n", want: Config{Kind: S3, Region: "us-west-2", KMS: "k", StorageClass: "STANDARD_IA"}},
		"minio":  {text: "[storage]\nstorage_provider=minio\nhost=h\nport=9000\nsecure=False\nssl_verify=False\nprefix=x\nbucket_name=b\n", want: Config{Kind: S3, Region: "us-east-1", Host: "h", Port: 9000, Plain: true, NoVerify: true, PathStyle: true, Prefix: "x"}},
		"newer":  {text: "[storage]\nstorage_provider=s3_eu_west3\nregion=eu-west-3\nbucket_name=b\n", want: Config{Kind: S3, Region: "eu-west-3"}},
		"ports":  {text: "[storage]\nstorage_provider=s3_compatible\nhost=h:9000\nbucket_name=b\n", want: Config{Kind: S3, Region: "us-east-1", Host: "h", Port: 9000, PathStyle: true}},
		"six":    {text: "[storage]\nstorage_provider=azure_blobs\nhost=[fd00::1]:10000\nbucket_name=b\n", want: Config{Kind: Azure, Host: "fd00::1", Port: 10000, PathStyle: true}},
		"below":  {text: "[storage]\nstorage_provider=s3_compatible\nhost=h:9000/storage/s3/\nport=0\nbucket_name=b\n", want: Config{Kind: S3, Region: "us-east-1", Host: "h:9000/storage/s3", PathStyle: true}},
		"own":    {text: "[storage]\nstorage_provider=s3\nport=443\nbucket_name=b\n", want: Config{Kind: S3, Region: "us-east-1"}},
		"none":   {text: "[storage]\nstorage_provider=google_storage\nport=0\nbucket_name=b\n", want: Config{Kind: GCS}},
		"style":  {text: "[storage]\nstorage_provider=s3_compatible\nhost=h\ns3_addressing_style=virtual\nbucket_name=b\n", want: Config{Kind: S3, Region: "us-east-1", Host: "h"}},
		"google": {text: "[storage]\nstorage_provider=google_storage\nbucket_name=b\nkey_file=/k\n", want: Config{Kind: GCS, KeyFile: "/k"}},
		"azure":  {text: "[storage]\nstorage_provider=azure_blobs\nbucket_name=b\n", want: Config{Kind: Azure}},
		"local":  {text: "[storage]\nstorage_provider=local\nbucket_name=b\nbase_path=/d\n", want: Config{Kind: Local, BasePath: "/d", KeyFile: ""}},
		"age":    {text: "[storage]\nstorage_provider=s3\nbucket_name=b\n[stategraft]\nage_recipient=" + one + ", " + one + "\n", want: Config{Kind: S3, Region: "us-east-1", Recipients: []string{one, one}}},

		"no section":  {text: "[x]\n", wrong: "[storage] is missing"},
		"no provider": {text: "[storage]\nbucket_name=b\n", wrong: "storage_provider is missing"},
		"no bucket":   {text: "[storage]\nstorage_provider=s3\n", wrong: "bucket_name is missing"},
		"unknown":     {text: "[storage]\nstorage_provider=ftp\nbucket_name=b\n", wrong: "ftp is not known"},
		"no host":     {text: "[storage]\nstorage_provider=ibm_storage\nbucket_name=b\n", wrong: "host is missing"},
		"no path":     {text: "[storage]\nstorage_provider=local\nbucket_name=b\n", wrong: "base_path is missing"},
		"slash":       {text: "[storage]\nstorage_provider=s3\nbucket_name=b\nprefix=a/b\n", wrong: "must not contain a slash"},
		"sse":         {text: "[storage]\nstorage_provider=s3\nbucket_name=b\nsse_c_key=x\n", wrong: "sse_c_key is not supported"},
		"port":        {text: "[storage]\nstorage_provider=s3\nbucket_name=b\nport=x\n", wrong: "is no port"},
		"lone port":   {text: "[storage]\nstorage_provider=google_storage\nbucket_name=b\nport=9000\n", wrong: "port = 9000 is without a host"},
		"url":         {text: "[storage]\nstorage_provider=s3\nbucket_name=b\nhost=https://h\n", wrong: "leave out https://"},
		"port twice":  {text: "[storage]\nstorage_provider=s3\nbucket_name=b\nhost=h:9000\nport=9000\n", wrong: "put its port into port"},
		"half a port": {text: "[storage]\nstorage_provider=s3\nbucket_name=b\nhost=h:\n", wrong: "put its port into port"},
		"port 0":      {text: "[storage]\nstorage_provider=s3\nbucket_name=b\nhost=h:0\n", wrong: "put its port into port"},
		"path":        {text: "[storage]\nstorage_provider=google_storage\nbucket_name=b\nhost=h/p\n", wrong: "and a path"},
		"path, port":  {text: "[storage]\nstorage_provider=s3\nbucket_name=b\nhost=h/p\nport=9000\n", wrong: "and a path"},
		"no region":   {text: "[storage]\nstorage_provider=s3_us_wset2\nregion=default\nbucket_name=b\n", wrong: "names no region that is known"},
		"addressing":  {text: "[storage]\nstorage_provider=s3\nbucket_name=b\ns3_addressing_style=both\n", wrong: "none of auto, path, virtual"},
		"boolean":     {text: "[storage]\nstorage_provider=s3\nbucket_name=b\nsecure=perhaps\n", wrong: "neither True nor False"},
		"class":       {text: "[storage]\nstorage_provider=azure_blobs\nbucket_name=b\nstorage_class=Cool\n", wrong: "only supported for S3"},
		"no key":      {text: "[storage]\nstorage_provider=s3\nbucket_name=b\n[stategraft]\nage_recipient=AGE-SECRET-KEY-1\n", wrong: "age_recipient is a private key: put"},
		"bad key":     {text: "[storage]\nstorage_provider=s3\nbucket_name=b\n[stategraft]\nage_recipient=age1x\n", wrong: "is no public key of age"},
	}
	for name, c := range cases {
		file, err := ini.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := FromINI(file, Defaults{Prefix: "default", Credentials: credentials})
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		c.want.Bucket = "b"
		if c.want.Prefix == "" {
			c.want.Prefix = "default"
		}
		if c.want.KeyFile == "" && c.want.Kind != Local {
			c.want.KeyFile = credentials
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v; %v", name, got, c.want, err)
		}
	}
}

func TestAzureURL(t *testing.T) {
	for want, c := range map[string]Config{
		"https://acc.blob.core.windows.net/b":       {},
		"https://acc.blob.core.usgovcloudapi.net/b": {Host: "usgovcloudapi.net"},
		"http://azurite:10000/acc/b":                {Host: "azurite", Port: 10000, Plain: true},
		"https://127.0.0.1:10000/acc/b":             {Host: "127.0.0.1", Port: 10000},
		"https://acc.blob.core.windows.net:8443/b":  {Port: 8443},
		"http://[fd00::1]:10000/acc/b":              {Host: "fd00::1", Port: 10000, Plain: true},
		"https://[fd00::1]/acc/b":                   {Host: "[fd00::1]"},
	} {
		c.Bucket = "b"
		if got := c.azureURL("acc"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
