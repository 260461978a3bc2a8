# Is the size true that cowbell says a snapshot will need? Volumes of many kinds are written to for 27 virtual hours,
# measured by cowbell's own code, and then have real snapshots with other random numbers: thick ones with chunks of 4, 64
# and 512 KiB, and those of thin pools. A MariaDB on XFS writes, too. `sizing/main.rs` does all that, and prints a table of
# figures with their goals. It fails if one is missed. Each comparison is a line of `$OUT/comparisons.tsv`.
#
# Then what it costs to be watched, in runs with and without a region in turn. `sizing 7` draws other random numbers,
# `sizing 7 compare` leaves out the cost, `sizing 7 overhead` the comparisons. Both need 10 to 20 minutes.
#
# Most volumes lie on a device that keeps nothing, so that only the kernel's own work takes time.
#
# LAB_EXAMPLE=sizing
# LAB_DISK_SIZE=4G
# LAB_MEM=2500M
# LAB_TIMEOUT=3600
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/database.sh"

# No random numbers of this seed were looked at before the figures in benches/RESULTS.md.
seed=${1:-20261124}
part=${2:-all}
sizing=${COWBELL%/*}/examples/sizing
rows=200000           # of the database's table, 60 MB: twice its buffer

# The second PV keeps LVM's labels, and nothing else. Extents are small, as the volumes are.
make_group() {
    modules dm-snapshot dm-thin-pool dm-zero xfs
    dmsetup create pva --table "0 $(blockdev --getsz /dev/ubda) linear /dev/ubda 0"
    dmsetup create pvb <<-END
	0 8192 linear /dev/ubdb 0
	8192 2147483648 zero
	END
    lvm_sees_only '/dev/mapper/pv.*'
    new_group -s 256k vg0 /dev/mapper/pva /dev/mapper/pvb
}

make_file_systems() {
    local name
    for name in xfs mariadb; do
        new_volume -L 384M -n $name vg0 /dev/mapper/pva
        mkfs.xfs -q "/dev/vg0/$name"
        mkdir "/mnt/$name"
        mount "/dev/vg0/$name" "/mnt/$name"
    done
}

# Updates fall on rows with small numbers more often; each is a transaction, and leaves a line in a second table.
fill_database() {
    install_database /mnt/tmp/mysql
    copy_database /mnt/tmp/mysql /mnt/mariadb/
    rm -r /mnt/tmp/mysql
    start_database /mnt/mariadb/mysql
    mariadb --no-defaults <<-END
	CREATE DATABASE shop;
	USE shop;
	CREATE TABLE goods (id INT PRIMARY KEY, sold INT, note CHAR(200)) ENGINE=InnoDB;
	INSERT INTO goods SELECT seq, 0, 'new' FROM seq_1_to_$rows;
	CREATE TABLE sales (id INT AUTO_INCREMENT PRIMARY KEY, goods INT, at TIMESTAMP) ENGINE=InnoDB;
	DELIMITER //
	CREATE PROCEDURE work(count INT, seed INT)
	BEGIN
	    DECLARE number INT DEFAULT 0;
	    DECLARE chosen INT;
	    SET rand_seed1 = seed, rand_seed2 = seed * 7 + 1;
	    WHILE number < count DO
	        SET chosen = 1 + FLOOR($rows * POW(RAND(), 3));
	        START TRANSACTION;
	        UPDATE goods SET sold = sold + 1, note = REPEAT(CHAR(97 + number % 26), 200) WHERE id = chosen;
	        INSERT INTO sales (goods, at) VALUES (chosen, NOW());
	        COMMIT;
	        SET number = number + 1;
	    END WHILE;
	END //
	END
    export MARIADB=$mariadb
}

figures() {
    "$sizing" "$@" || failures=$((failures + 1))
}

need mariadbd mariadb mariadb-install-db
make_group
if [[ $part != overhead ]]; then
    make_file_systems
    fill_database
    figures compare "$seed" "$OUT/comparisons.tsv"
    stop_database
    umount /mnt/xfs /mnt/mariadb
    lvremove -qqf vg0 >>"$OUT/lvm.log" 2>&1
fi
if [[ $part != compare ]]; then
    new_volume -L 1G -n on_disk vg0 /dev/mapper/pva
    new_volume -L 1G -n on_nothing vg0 /dev/mapper/pvb
    figures overhead
fi
echo "$failures of the parts missed a goal"
((failures == 0))
