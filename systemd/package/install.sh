#!/bin/sh
# Installs cowbell where neither dpkg nor rpm does, to the same places; or removes it.
#
#   ./install.sh [--remove | --purge]
#
# --remove keeps data and configuration, --purge deletes them.
set -e
umask 022
cd "$(dirname "$0")"
configuration=/etc/cowbell/cowbell.toml

refuse() {
    echo "install.sh: $*" >&2
    exit 2
}

is_packaged() {
    { dpkg -S /usr/bin/cowbell || rpm -qf /usr/bin/cowbell; } >/dev/null 2>&1
}

# The same scripts as in the .rpm, which get the number of versions.
install_all() {
    versions=1
    [ ! -e /usr/bin/cowbell ] || versions=2
    sh scripts/pre $versions
    (cd root && find . -type d) | while read -r folder; do mkdir -p "/$folder"; done
    (cd root && find . ! -type d ! -path ".$configuration") | while read -r file; do
        # A program in use cannot be overwritten, but replaced.
        cp -P "root/$file" "/$file.new"
        mv -fT "/$file.new" "/$file"
    done
    [ -e "$configuration" ] || install -m 640 -g cowbell "root$configuration" "$configuration"
    sh scripts/post $versions
    [ $versions = 1 ] || sh scripts/postun 1
}

remove() {
    sh scripts/preun 0
    (cd root && find . ! -type d ! -path ".$configuration") | while read -r file; do rm -f "/$file"; done
    rm -rf /usr/share/cowbell /usr/share/doc/cowbell
    sh scripts/postun 0
}

[ "$(id -u)" = 0 ] || refuse "only root can install; run it with sudo"
! is_packaged || refuse "a package of this system has installed cowbell; upgrade or remove that"
case $* in
'') install_all ;;
--remove) remove ;;
--purge)
    remove
    rm -rf /var/lib/cowbell /etc/cowbell
    ;;
*) refuse "expected nothing, --remove or --purge, but found \"$*\"" ;;
esac
