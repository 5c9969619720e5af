// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/profile"
)

// Secrets come from files or from these variables. They never come from flags, which every process on the machine can read.
const (
	passwordVariable = "PORTAL_EMULATOR_PASSWORD"
	seedVariable     = "PORTAL_EMULATOR_TOTP_SEED"
)

// flags are the values of the command line.
type flags struct {
	listen, adminListen, caFile string
	pageListen                  string
	binaries                    string
	workloadHost, workloadBind  string
	user, passwordFile          string
	usersFile                   string
	versions, vpcs              []string
	zones, offerings, keyPairs  []string
	durations                   map[string]string
	victimOrder, upgradeStyle   string
	controlMarks                string
	faultsFile, shapesFile      string
	profile                     string
	requestLog                  string
	passwordGiven               bool

	base emulator.Options // options that flags set directly
	set  *pflag.FlagSet
}

func (f *flags) bind(set *pflag.FlagSet) {
	o := &f.base
	f.set = set
	set.StringVar(&f.profile, "profile", "", "description of a portal: a YAML `file`, or one of "+strings.Join(profile.Names(), ", ")+"; other flags win over it")
	set.StringVar(&f.listen, "listen", "127.0.0.1:8443", "address of the API, TLS only. Port 0 takes a free port")
	set.StringVar(&f.adminListen, "admin-listen", "127.0.0.1:8444", "loopback address of the admin listener, plain HTTP. Empty turns it off")
	set.StringVar(&f.pageListen, "page-listen", "127.0.0.1:8445", "loopback address of the page for a browser, plain HTTP. Empty turns it off")
	set.StringVar(&f.caFile, "ca-file", "", "write the CA certificate that clients have to trust to this `file`")
	set.StringSliceVar(&o.Hosts, "host", nil, "additional name or address for the certificate (repeatable)")
	set.StringVar(&o.BasePath, "base-path", "", "path prefix of all endpoints, such as /api/v1")
	set.BoolVar(&o.HTTP1, "http1", false, "do not offer HTTP/2")

	set.StringVar(&f.binaries, "kubernetes-binaries", os.Getenv("KUBEBUILDER_ASSETS"), "`directory` of the binaries that 'make kube' builds. Clusters are then real ones (default $KUBEBUILDER_ASSETS)")
	set.StringVar(&f.workloadHost, "workload-host", "", "host in the kubeconfigs of real clusters (default: the address of --workload-bind)")
	set.StringVar(&f.workloadBind, "workload-bind", "", "IP address on which the API servers of real clusters listen (default 127.0.0.1)")
	set.StringSliceVar(&f.versions, "kubernetes-versions", defaultVersions(), "Kubernetes versions on offer")
	set.StringSliceVar(&f.zones, "zones", emulator.DefaultZones(), "zones that exist. Empty accepts any")
	set.StringSliceVar(&f.offerings, "service-offerings", emulator.DefaultServiceOfferings(), "service offerings that exist. Empty accepts any")
	set.StringSliceVar(&f.keyPairs, "ssh-key-pairs", emulator.DefaultSSHKeyPairs(), "SSH key pairs that exist. Empty accepts any")
	set.StringSliceVar(&f.vpcs, "vpc", nil, "name of a VPC that exists at the start (repeatable, default: one named default)")

	set.StringVar(&f.user, "user", emulator.DefaultEmail, "e-mail address of the Administrator. A TOTP seed in $"+seedVariable+" gives the user MFA")
	set.StringVar(&f.passwordFile, "password-file", "", "`file` with the user's password (default $"+passwordVariable+", else one is generated and printed)")
	set.StringVar(&f.usersFile, "users-file", "", "YAML `file` with a list of users instead: email, password, role, account, totpSeed, idp")

	set.StringToStringVar(&f.durations, "job-duration", nil, "minimum duration of jobs, as `kind=duration`: pending, create, scale, upgrade, delete, vpc, network, or all (create=30s,upgrade=1m)")
	set.StringVar(&f.victimOrder, "victim-order", string(emulator.VictimsNewest), "workers that a scale-down removes first: newest, oldest or random")
	set.StringVar(&f.upgradeStyle, "upgrade-style", string(emulator.UpgradeInPlace), "what an upgrade does to each node: in-place, recreate, replace or surge")
	set.StringVar(&f.controlMarks, "control-marks", string(emulator.MarkedBoth), "how control nodes are marked as such: both (label and taint), label, taint or none")
	set.DurationVar(&o.KubeconfigLifetime, "kubeconfig-lifetime", 0, "how long the credentials in a kubeconfig are valid. 0 is a year, with the same credentials each time")
	set.BoolVar(&o.ProviderIDs, "provider-ids", false, "give nodes a providerID")
	set.BoolVar(&o.ReuseNodeNames, "reuse-node-names", false, "give new workers the names of removed ones")
	set.IntVar(&o.MinWorkers, "min-workers", 0, "minimum number of workers of a cluster")
	set.IntVar(&o.MaxWorkers, "max-workers", 50, "maximum number of workers of a cluster")
	set.IntVar(&o.MaxClusters, "max-clusters", 0, "maximum number of clusters of an account. 0 is no quota")
	set.IntVar(&o.VolumesPerCluster, "volumes-per-cluster", 0, "volumes that each new cluster gets")
	set.IntVar(&o.RateLimit.PerMinute, "rate-limit", 300, "requests per minute of each account")
	set.IntVar(&o.RateLimit.Burst, "rate-burst", 50, "requests that an account may make at once")
	set.DurationVar(&o.TokenLifetime, "token-lifetime", 8*time.Hour, "lifetime of tokens")
	set.DurationVar(&o.ClockSkew, "clock-skew", 0, "how far the portal's clock is ahead of the machine's")
	set.BoolVar(&o.ListClusters, "list-clusters", false, "answer GET /kubernetes-clusters?name=, which is not in the specification")
	set.StringVar(&f.faultsFile, "faults", "", "YAML or JSON `file` with faults to arm at the start")
	set.StringVar(&f.shapesFile, "shapes", "", "YAML or JSON `file` with the form of answers that the specification does not define")
	set.Int64Var(&o.Seed, "seed", 0, "seed of all randomness but secrets (default a new one, printed)")
	set.StringVar(&f.requestLog, "request-log", "", "write requests and changes of state to this `file` as they happen. - is standard output")
}

func defaultVersions() (names []string) {
	for _, v := range emulator.DefaultVersions() {
		names = append(names, v.SemanticVersion)
	}
	return names
}

// options returns the options that the flags, and the files they name, ask for.
func (f *flags) options() (emulator.Options, error) {
	if err := f.applyProfile(); err != nil {
		return f.base, err
	}
	if err := f.checkNumbers(); err != nil {
		return f.base, err
	}
	opts := f.base
	opts.RequestLogSize = requestLogSize
	f.setChoices(&opts)
	if err := f.readUsers(&opts); err != nil {
		return opts, err
	}
	if len(f.vpcs) > 0 {
		opts.VPCs = nil
	}
	for _, name := range f.vpcs {
		opts.VPCs = append(opts.VPCs, emulator.VPC{Name: name})
	}
	for i := range opts.VPCs {
		opts.VPCs[i].Account = opts.Users[0].Account
	}
	if err := setDurations(&opts.Durations, f.durations); err != nil {
		return opts, err
	}
	if f.shapesFile != "" {
		if err := readYAML(f.shapesFile, &opts.Shapes); err != nil {
			return opts, err
		}
	}
	return opts, f.readFaults(&opts)
}

// requestLogSize is how many entries of the request log the command keeps: some days of one cluster, or an hour at the rate limit.
const requestLogSize = 50_000

// checkNumbers refuses flags that are given as zero, or as nothing. The portal would take its default for them.
func (f *flags) checkNumbers() error {
	var wrong error
	if f.set == nil {
		return nil
	}
	f.set.Visit(func(flag *pflag.Flag) {
		value := flag.Value.String()
		switch flag.Name {
		case "max-workers", "rate-limit", "rate-burst", "token-lifetime":
			if value == "0" || value == "0s" {
				wrong = fmt.Errorf("--%s %s: must be more than zero", flag.Name, value)
			}
		case "victim-order", "upgrade-style", "control-marks", "kubernetes-versions":
			if value == "" || value == "[]" {
				wrong = fmt.Errorf("--%s: must not be empty", flag.Name)
			}
		}
	})
	return wrong
}

// setChoices sets the options whose flag has another type, unless a profile has set them.
func (f *flags) setChoices(opts *emulator.Options) {
	if opts.VictimOrder == "" || f.set.Changed("victim-order") {
		opts.VictimOrder = emulator.VictimOrder(f.victimOrder)
	}
	if opts.UpgradeStyle == "" || f.set.Changed("upgrade-style") {
		opts.UpgradeStyle = emulator.UpgradeStyle(f.upgradeStyle)
	}
	if opts.ControlMarks == "" || f.set.Changed("control-marks") {
		opts.ControlMarks = emulator.ControlMarks(f.controlMarks)
	}
	for name, list := range map[string]struct{ option, given *[]string }{
		"zones":             {&opts.Zones, &f.zones},
		"service-offerings": {&opts.ServiceOfferings, &f.offerings},
		"ssh-key-pairs":     {&opts.SSHKeyPairs, &f.keyPairs},
	} {
		if len(*list.option) == 0 || f.set.Changed(name) {
			*list.option = *list.given
		}
	}
	if len(opts.Versions) == 0 || f.set.Changed("kubernetes-versions") {
		opts.Versions = nil
		for _, v := range f.versions {
			opts.Versions = append(opts.Versions, emulator.Version{SemanticVersion: v})
		}
	}
}

// readFaults adds the faults in the faults file to those of the profile.
func (f *flags) readFaults(opts *emulator.Options) error {
	if f.faultsFile == "" {
		return nil
	}
	content, err := os.ReadFile(f.faultsFile)
	if err != nil {
		return err
	}
	var faults []emulator.Fault
	content, err = yaml.YAMLToJSONStrict(content)
	if err == nil {
		faults, err = emulator.ParseFaults(content)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.faultsFile, err)
	}
	opts.Faults = append(opts.Faults, faults...)
	return nil
}

// applyProfile applies the profile, then the command line again.
func (f *flags) applyProfile() error {
	if f.profile == "" {
		return nil
	}
	p, err := profile.Load(f.profile)
	if err != nil {
		return err
	}
	given := map[string]string{}
	f.set.Visit(func(flag *pflag.Flag) { given[flag.Name] = flag.Value.String() })
	p.Apply(&f.base)
	for _, name := range direct {
		if value, changed := given[name]; changed {
			if err := f.set.Set(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// direct are the flags that set options which a profile also sets.
var direct = []string{
	"base-path", "provider-ids", "reuse-node-names", "min-workers", "max-workers", "max-clusters", "volumes-per-cluster", "rate-limit",
	"rate-burst", "token-lifetime", "clock-skew", "list-clusters", "kubeconfig-lifetime",
}

// userEntry is a user in the users file.
type userEntry struct {
	ID       string        `json:"id,omitempty"`
	Email    string        `json:"email"`
	Password string        `json:"password,omitempty"`
	Role     emulator.Role `json:"role,omitempty"`
	Account  string        `json:"account,omitempty"`
	TOTPSeed string        `json:"totpSeed,omitempty"`
	IDP      string        `json:"idp,omitempty"`
}

func (f *flags) readUsers(opts *emulator.Options) error {
	if f.usersFile != "" {
		var entries []userEntry
		if err := readYAML(f.usersFile, &entries); err != nil {
			return fmt.Errorf("%s: %w", f.usersFile, errUsersFile)
		}
		if len(entries) == 0 {
			return fmt.Errorf("%s: has no users", f.usersFile)
		}
		for _, e := range entries {
			opts.Users = append(opts.Users, emulator.User(e))
		}
		f.passwordGiven = entries[0].Password != ""
		return nil
	}
	password := os.Getenv(passwordVariable)
	if f.passwordFile != "" {
		content, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return err
		}
		if password = strings.TrimRight(string(content), "\r\n"); password == "" {
			return fmt.Errorf("%s: the password is empty", f.passwordFile)
		}
	}
	f.passwordGiven = password != ""
	opts.Users = []emulator.User{{Email: f.user, Password: password, TOTPSeed: os.Getenv(seedVariable)}}
	return nil
}

// errUsersFile does not quote the file, because it holds secrets.
var errUsersFile = errors.New("cannot be read as a YAML list of users with the keys id, email, password, role, account, totpSeed and idp")

// readYAML reads a file, and refuses unknown fields.
func readYAML(name string, into any) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func setDurations(d *emulator.Durations, given map[string]string) error {
	kinds := map[string][]*time.Duration{
		"pending": {&d.Pending}, "create": {&d.Create}, "scale": {&d.Scale}, "upgrade": {&d.Upgrade},
		"delete": {&d.Delete}, "vpc": {&d.VPC}, "network": {&d.Network},
		"all": {&d.Create, &d.Scale, &d.Upgrade, &d.Delete, &d.VPC, &d.Network},
	}
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names) // all comes first, so that others can override it
	for _, name := range names {
		takes, err := time.ParseDuration(given[name])
		if err != nil || kinds[name] == nil {
			return fmt.Errorf("--job-duration %s=%s: must be a kind of job and a duration", name, given[name])
		}
		if takes == 0 {
			takes = -1 // zero means no duration, not the default
		}
		for _, target := range kinds[name] {
			*target = takes
		}
	}
	return nil
}
